"""Sessions on the workers of a Dask cluster.

A session is the result of a Dask task that depends on its block, and each request is a task that
depends on the session. Dask therefore reloads lost blocks, recreates their sessions, and ends
sessions without references. This module only has to detect lost workers.
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

# Seconds between checks of the workers, seconds to wait for the replacement of a lost worker, and
# maximum number of seconds without any workers.
_POLL, _RETURN, _PATIENCE = 1.0, 10.0, 300.0
# Replaying the whole log to a new session is a large message, which is intended.
_LARGE = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}


class DaskCarrier:
    """Sends requests to sessions on Dask workers; see `steinpath.cluster._conversation`.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.
    blocks : sequence of distributed.Future
        Validated blocks of rows.
    facts : sequence of Facts
        Properties of the blocks when they were validated; a reloaded block must match.
    names : sequence of str
        Names of the blocks in messages.
    places : sequence of Place
        Positions of the blocks among all rows.
    dtype : str
        Precision of all blocks.
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
        self._where: dict[int, str] = {}  # worker address of each session
        self._crew = 0  # last known number of workers

    def forget(self) -> None:
        """End all sessions; later requests start new ones."""
        self._sessions, self._where = {}, {}

    def exchange(self, requests: Mapping[int, Request]) -> dict[int, Answer]:
        """Return the answers to requests, by block."""
        try:
            return self._exchange(requests)
        except Exception as error:
            if self._client.status == "running" or isinstance(error, WorkerLost):
                raise
            raise WorkerLost(
                "the Dask client or its cluster is closed, and the data on its workers are lost; "
                "create a new client, design and path"
            ) from error

    def _exchange(self, requests: Mapping[int, Request]) -> dict[int, Answer]:
        if not self._sessions:
            self._open(list(requests))
        # a request to a known session must run on the worker of that session
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
                # otherwise they would wait forever and keep their sessions and blocks alive
                self._client.cancel([waiting[k] for k in gone])
                for k in gone:
                    del waiting[k]
                    answers[k] = Lost()
                gathering = _Gathering(self._client, list(waiting.values()))
                self._open_again(gone)
        return answers

    def _open(self, blocks: Sequence[int]) -> None:
        """Start sessions on the workers that hold the blocks, or on others if those are full."""
        until = time.monotonic() + _PATIENCE
        while not (threads := self._client.nthreads()):  # a new worker may be lost again
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
        """Restart sessions whose workers were lost, on replacements if these appear in time."""
        for k in blocks:
            del self._sessions[k], self._where[k]
        with suppress(TimeoutError):
            self._client.wait_for_workers(self._crew, timeout=_RETURN)
        self._open(blocks)

    def _submit(self, requests: Mapping[int, Request], bound: Mapping[int, str]) -> dict[int, Any]:
        from cloudpickle import dumps
        from dask import config

        packed: dict[int, bytes] = {}  # most messages are common to all blocks
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
        """Return an error with a helpful message for a failed task."""
        from distributed import KilledWorker

        name = next((self.names[k] for k in waiting if waiting[k].status == "error"), "a block")
        if isinstance(error, KilledWorker):
            return WorkerLost(worker_lost(name, "repeatedly"))
        if isinstance(error, CancelledError):
            return WorkerLost("the cluster no longer has the blocks of X; create the design again")
        error.add_note(f"(at {name})")
        return error


def _no_workers() -> WorkerLost:
    return WorkerLost(
        f"the cluster has had no workers for {_PATIENCE:.0f} seconds; start workers and try again"
    )


class _Gathering:
    """Results of running tasks, polled repeatedly."""

    def __init__(self, client: Any, futures: Sequence[Any]):
        self._client, self._futures = client, futures
        self._task: asyncio.Task[list[Any]] | None = None

    def poll(self) -> list[Any] | None:
        """Wait briefly for the results; return None if they take longer."""
        found: list[Any] | None = self._client.sync(self._poll)
        return found

    async def _poll(self) -> list[Any] | None:
        if self._task is None:
            gathering = self._client.gather(self._futures, asynchronous=True)
            self._task = asyncio.ensure_future(gathering)
            # its exception is ignored if the result is no longer needed
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait([self._task], timeout=_POLL)
        return self._task.result() if self._task.done() else None


def _session(block: Any, place: Place, dtype: str, facts: Facts, name: str) -> Session:
    """Start a session on the worker that holds its block."""
    if facts_of(block) != facts:
        raise RuntimeError(
            f"{name} was loaded again and its values have changed since the design was created; "
            "create the design and the path again"
        )
    return Session(block, place, dtype)


def _code() -> str:
    """Return a hash of the numerical code, which must be the same on all workers."""
    return source_hash(*NUMERICAL, "cluster")


def _exchange(
    session: Session, before: int | None, after: int, packed: bytes, code: str
) -> tuple[Answer, str]:
    """Pass a request to a session on its worker."""
    from cloudpickle import loads
    from distributed import get_worker

    worker = get_worker()
    if code != _code():
        raise OutOfStep(
            f"the worker {worker.address} uses a different version of steinpath than the client; "
            "install the same version for both and restart the worker"
        )
    with _few_threads(worker.state.nthreads):
        return session.exchange(before, after, loads(packed)), worker.address


class _Limits:
    """The current limit on the threads of this process, if any."""

    lock = threading.Lock()
    users = 0
    now: Any = None


@contextmanager
def _few_threads(workers_threads: int) -> Iterator[None]:
    """Divide the cores among the busy threads of a worker.

    Otherwise each thread would use all cores for its matrix products, unless the worker was started
    with a limit of one thread, as by Dask's nannies.
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
