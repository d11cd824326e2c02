"""Sessions on the workers of a Dask cluster.

A session is the value of a Dask task that depends on its block, and each request is a task that
depends on the session. So Dask loads a lost block again, makes its session anew, and ends the
sessions that nobody refers to. What is left to do here is to notice that a worker is gone.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any
from uuid import uuid4

from threadpoolctl import ThreadpoolController

from steinpath._support.source_hash import NUMERICAL, source_hash
from steinpath.cluster._blocks import Facts, facts_of
from steinpath.cluster._conversation import OutOfStep, Request, WorkerLost, worker_lost
from steinpath.cluster._sessions import Answer, Lost, Session
from steinpath.cluster._shares import Place

# Seconds between two looks at the workers, seconds in which a lost worker may be replaced, and for
# how long there may be no workers at all.
_POLL, _RETURN, _PATIENCE = 1.0, 10.0, 300.0
# All that was said, told again to a new session, is a large message, and that is as it should be.
_LARGE = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}


class DaskCarrier:
    """Takes requests to sessions on Dask workers; see `steinpath.cluster._conversation`.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    blocks : sequence of distributed.Future
        The blocks of rows, which were checked.
    facts : sequence of Facts
        What they were when they were checked: one that is loaded again has to be the same.
    names : sequence of str
        What to call them.
    places : sequence of Place
        Which of all rows each has.
    dtype : str
        The precision of all blocks.
    """

    def __init__(
        self,
        client: Any,
        blocks: Sequence[Any],
        facts: Sequence[Facts],
        names: Sequence[str],
        places: Sequence[Place],
        dtype: str,
    ):
        self.names = names
        self._client = client
        self._args = [
            (block, place, dtype, own, name)
            for block, place, own, name in zip(blocks, places, facts, names, strict=True)
        ]
        self._sessions: dict[int, Any] = {}
        self._where: dict[int, str] = {}  # addresses of the workers of sessions
        self._crew = 0  # how many workers there were

    def forget(self) -> None:
        """End all sessions; the next requests are for new ones."""
        self._sessions, self._where = {}, {}

    def exchange(self, requests: Mapping[int, Request]) -> dict[int, Answer]:
        """Return the answer of each block that there is a request for."""
        try:
            return self._exchange(requests)
        except Exception as error:
            if self._client.status == "running" or isinstance(error, WorkerLost):
                raise
            raise WorkerLost(
                "the Dask client or its cluster is closed, and with it what was on the workers; "
                "make a client, the design and the path anew"
            ) from error

    def _exchange(self, requests: Mapping[int, Request]) -> dict[int, Answer]:
        if not self._sessions:
            self._open(list(requests))
        # to a new session a request goes wherever that is, to a known one nowhere else
        bound = {k: self._where[k] for k, request in requests.items() if request.before is not None}
        waiting = self._submit(requests, bound)
        answers: dict[int, Answer] = {}
        gathering = _Gathering(self._client, list(waiting.values()))
        alone_since = None
        while waiting:
            try:
                found = gathering.poll()
            except Exception as error:
                raise self._explained(error, waiting) from None
            if found is not None:
                for k, (answer, address) in zip(waiting, found, strict=True):
                    answers[k], self._where[k] = answer, address
                break
            workers = self._client.nthreads()
            alone_since = None if workers else alone_since or time.monotonic()
            if alone_since is not None and time.monotonic() - alone_since > _PATIENCE:
                raise _no_workers()
            gone = [k for k in waiting if bound.get(k) not in (None, *workers)]
            if gone:
                # or they would wait for ever, and keep their sessions and blocks as long
                self._client.cancel([waiting[k] for k in gone])
                for k in gone:
                    del waiting[k]
                    answers[k] = Lost()
                gathering = _Gathering(self._client, list(waiting.values()))
                self._open_again(gone)
        return answers

    def _open(self, blocks: Sequence[int]) -> None:
        """Make new sessions: where their blocks are, unless others have room and these do not."""
        until = time.monotonic() + _PATIENCE
        while not (threads := self._client.nthreads()):  # one that came may be gone again
            if time.monotonic() > until:
                raise _no_workers()
            with suppress(TimeoutError):
                self._client.wait_for_workers(1, timeout=_POLL)
            time.sleep(0.05)
        self._crew = max(self._crew, len(threads))
        holders = self._client.who_has([self._args[k][0] for k in blocks])
        kept = [where for k, where in self._where.items() if k not in blocks]
        for k in blocks:
            block = self._args[k][0]
            there = [where for where in holders.get(block.key, ()) if where in threads]
            share = len(self._args) / sum(threads.values())
            room = [where for where in there if kept.count(where) < share * threads[where]]
            least = sorted(threads, key=lambda where: kept.count(where) / threads[where])
            self._where[k] = (room or least)[0]
            kept.append(self._where[k])
            self._sessions[k] = self._client.submit(
                _session,
                *self._args[k],
                key=f"session-{uuid4().hex}",
                pure=False,
                workers=[self._where[k]],
                allow_other_workers=True,
            )

    def _open_again(self, blocks: Sequence[int]) -> None:
        """Make sessions in place of some whose workers are gone; others may come back for them."""
        for k in blocks:
            del self._sessions[k], self._where[k]
        with suppress(TimeoutError):
            self._client.wait_for_workers(self._crew, timeout=_RETURN)
        self._open(blocks)

    def _submit(self, requests: Mapping[int, Request], bound: Mapping[int, str]) -> dict[int, Any]:
        from cloudpickle import dumps
        from dask import config

        packed: dict[int, bytes] = {}  # most messages are the same for all blocks
        waiting = {}
        for k, request in requests.items():
            what = id(request.messages[0]) if len(request.messages) == 1 else -1 - k
            if what not in packed:
                packed[what] = dumps(request.messages, protocol=5)
            with config.set(_LARGE):
                waiting[k] = self._client.submit(
                    _exchange,
                    self._sessions[k],
                    request.before,
                    request.after,
                    packed[what],
                    _code(),
                    key=f"exchange-{uuid4().hex}",
                    pure=False,
                    retries=0,
                    workers=[bound[k]] if k in bound else None,
                )
        return waiting

    def _explained(self, error: Exception, waiting: Mapping[int, Any]) -> Exception:
        """Return what went wrong with one of the tasks, in words that help."""
        from distributed import KilledWorker

        name = next((self.names[k] for k in waiting if waiting[k].status == "error"), "a block")
        if isinstance(error, KilledWorker):
            return WorkerLost(worker_lost(name, "time and again"))
        if isinstance(error, CancelledError):
            return WorkerLost("the cluster has forgotten the blocks of X; make the design anew")
        error.add_note(f"(at {name})")
        return error


def _no_workers() -> WorkerLost:
    return WorkerLost(
        f"the cluster has had no workers for {_PATIENCE:.0f} seconds; start some, and try again"
    )


class _Gathering:
    """Results of tasks under way; one look after the other, which leave no trace."""

    def __init__(self, client: Any, futures: Sequence[Any]):
        self._client, self._futures = client, futures
        self._task: asyncio.Task[list[Any]] | None = None

    def poll(self) -> list[Any] | None:
        """Wait for the results for a moment; return None if they take longer."""
        found: list[Any] | None = self._client.sync(self._poll)
        return found

    async def _poll(self) -> list[Any] | None:
        if self._task is None:
            gathering = self._client.gather(self._futures, asynchronous=True)
            self._task = asyncio.ensure_future(gathering)
            # if nobody asks any more, its end is no news
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait([self._task], timeout=_POLL)
        return self._task.result() if self._task.done() else None


def _session(block: Any, place: Place, dtype: str, facts: Facts, name: str) -> Session:
    """Begin a session, on the worker that has its block."""
    if facts_of(block) != facts:
        raise RuntimeError(
            f"{name} was loaded again, and is not what it was when the design was made; make the "
            "design and the path anew"
        )
    return Session(block, place, dtype)


def _code() -> str:
    """Hash of what the numbers of a run depend on, which all workers must have in common."""
    return source_hash(*NUMERICAL, "cluster")


def _exchange(
    session: Session, before: int | None, after: int, packed: bytes, code: str
) -> tuple[Answer, str]:
    """Hand a request to a session, on its worker."""
    from cloudpickle import loads
    from distributed import get_worker

    worker = get_worker()
    if code != _code():
        raise OutOfStep(
            f"the worker {worker.address} has other code than the process that asks; install the "
            "same version of steinpath for both, and start the worker again"
        )
    with _few_threads(worker.state.nthreads):
        return session.exchange(before, after, loads(packed)), worker.address


class _Limits:
    """The limit on threads of this process, while there is one."""

    lock = threading.Lock()
    users = 0
    now: Any = None


@contextmanager
def _few_threads(workers_threads: int) -> Iterator[None]:
    """Share the cores among the threads of a worker, while any of them is at work.

    Without it each would use all cores for its products, unless the worker was started with one
    thread for these, as Dask's nannies start theirs.
    """
    with _Limits.lock:
        _Limits.users += 1
        if _Limits.users == 1:
            fair = max(1, (os.cpu_count() or 1) // workers_threads)
            if any(library["num_threads"] > fair for library in _libraries().info()):
                _Limits.now = _libraries().limit(limits=fair)
    try:
        yield
    finally:
        with _Limits.lock:
            _Limits.users -= 1
            if _Limits.users == 0 and _Limits.now is not None:
                _Limits.now.restore_original_limits()
                _Limits.now = None


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
