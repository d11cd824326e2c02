"""Rows in blocks of this process, as if they were on a cluster."""

import numpy as np

from steinpath.cluster import DistributedDesign
from steinpath.cluster._blocks import facts_of
from steinpath.cluster._sessions import Lost, Session

CUTS = [1, 2, 9, 30]  # uneven, with blocks of a single row


class LocalCarrier:
    """Sessions in this process, which may be lost on the way."""

    def __init__(self, sessions, lose=()):
        self.sessions = list(sessions)
        self.names = [f"block {k}" for k in range(len(self.sessions))]
        self.lose = dict(lose)  # how often to lose a block, from which request on
        self.requests, self.replayed = 0, 0

    def exchange(self, requests):
        answers = {}
        for k, request in requests.items():
            self.requests += 1
            self.replayed += request.before is None and len(request.messages) > 1
            if self.lose.get(k, (0, 0))[0] and self.requests >= self.lose[k][1]:
                self.lose[k] = (self.lose[k][0] - 1, self.lose[k][1])
                answers[k] = Lost()
                self.sessions[k] = fresh(self.sessions[k])
            else:
                answers[k] = self.sessions[k].exchange(*request)
        return answers

    def forget(self):
        self.sessions = [fresh(session) for session in self.sessions]


def fresh(session):
    """What arrives where a session is copied to."""
    make, args = session.__reduce__()
    return make(*args)


class LocalDesign(DistributedDesign):
    """Blocks in this process."""

    def __init__(self, X, cuts, lose=()):
        self.starts = [0, *cuts]
        ends = [*cuts, X.shape[0]]
        self.blocks = [X[a:b] for a, b in zip(self.starts, ends, strict=True)]
        self.shape, self.example = X.shape, np.zeros(1, X.dtype)
        self._facts = [facts_of(block) for block in self.blocks]
        self.lose = lose

    def carrier(self):
        sessions = [
            Session(block, place, str(self.example.dtype))
            for block, place in zip(self.blocks, self.places_of_blocks, strict=True)
        ]
        self.last = LocalCarrier(sessions, self.lose)
        return self.last
