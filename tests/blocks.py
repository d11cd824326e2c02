"""Rows in blocks of this process, as if they were on a cluster."""

import numpy as np

import steinpath as sp
from steinpath.cluster import DistributedDesign
from steinpath.cluster._blocks import info_of
from steinpath.cluster._session import Lost, Session

CUTS = [1, 2, 9, 30]  # uneven, with blocks of a single row


class LocalCarrier:
    """Sessions in this process, which may be lost on the way."""

    def __init__(self, design):
        self.design, self.names = design, [f"block {k}" for k in range(len(design.blocks))]
        self.lose = {}  # how often to lose a block, from which round on
        self.rounds, self.restarts = 0, -1
        self.restart()

    def exchange(self, position, messages):
        self.rounds += 1
        for k, (count, first) in self.lose.items():
            if count and self.rounds >= first:
                self.lose[k] = count - 1, first
                return [Lost(j == k) for j in range(len(messages))]
        pairs = zip(self.sessions, messages, strict=True)
        return [session.exchange(position, message) for session, message in pairs]

    def restart(self):
        self.restarts += 1
        bounds, dtype = [*self.design.starts, self.design.n_rows], str(self.design.example.dtype)
        blocks = enumerate(self.design.blocks)
        self.sessions = [Session(block, k, bounds, dtype) for k, block in blocks]


class LocalDesign(DistributedDesign):
    """Blocks in this process; ``lose`` tells which sessions to lose."""

    def __init__(self, X, cuts, lose=()):
        self.starts = [0, *cuts]
        ends = [*cuts, X.shape[0]]
        self.blocks = [X[a:b] for a, b in zip(self.starts, ends, strict=True)]
        self.shape, self.example = X.shape, np.zeros(1, X.dtype)
        self._infos = [info_of(block) for block in self.blocks]
        self.carried = LocalCarrier(self)
        self.carried.lose = dict(lose)

    def carrier(self):
        return self.carried


def both_runs(X, *args, cuts=CUTS, **options):
    """Run on blocks and on the whole."""
    return [sp.run(each, *args, **options) for each in (LocalDesign(X, cuts), X)]


def assert_same(found, expected, atol=1e-10):
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    size = max(1.0, np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol * size)
