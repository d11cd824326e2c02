"""Sessions on the workers of a Dask cluster.

A session is the result of a Dask task that depends on its block, and each message is a task that
depends on the session. Dask therefore reloads lost blocks, recreates their sessions, and ends
sessions without references. This module only has to detect lost workers.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager, nullcontext, suppress
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from threadpoolctl import ThreadpoolController

from steinpath._support.source_hash import NUMERICAL, source_hash
from steinpath.cluster._blocks import BlockInfo, info_of
from steinpath.cluster._calls import OutOfStep, WorkerLost, worker_lost
from steinpath.cluster._session import Answer, Lost, Session

if TYPE_CHECKING:
    from steinpath.cluster._design import DistributedDesign

# Seconds between checks of the workers, seconds to wait for the replacement of a lost worker, and
# maximum number of seconds without any workers.
_POLL, _RETURN, _PATIENCE = 1.0, 10.0, 300.0
# Messages may be large, which is intended.
_LARGE = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}


class DaskCarrier:
    """Carries messages to the sessions of all blocks of a design, on Dask workers."""

    def __init__(self, design: DistributedDesign):
        self.names: Sequence[str] = design.names  # of the blocks in messages
        self._client = design.client
        bounds, dtype = [*design.starts, design.n_rows], str(design.example.dtype)
        blocks = zip(design.blocks, design._infos, design.names, strict=True)
        self._args = [
            (block, k, bounds, dtype, info, name) for k, (block, info, name) in enumerate(blocks)
        ]
        self._sessions: list[Any] = []
        self.addresses: list[str] = []  # of the worker of each session
        self._n_workers = 0  # last known number of workers

    def restart(self) -> None:
        """End all sessions; the next message starts new ones."""
        self._sessions, self.addresses = [], []

    def exchange(self, position: int, messages: Sequence[Any]) -> list[Answer]:
        """Return the answers of all blocks to their messages; the first has position 1."""
        try:
            if not self._sessions:
                self._open()
            return self._exchange(position, messages)
        except Exception as error:
            if self._client.status == "running" or isinstance(error, WorkerLost):
                raise
            raise WorkerLost(
                "the Dask client or its cluster is closed, and the data on its workers are lost; "
                "create a new client, design and path"
            ) from error

    def _exchange(self, position: int, messages: Sequence[Any]) -> list[Answer]:
        # the first message may follow a session to another worker, later ones must not
        bound = position > 1
        waiting = self._submit(position, messages, bound)
        loop = self._client.loop.asyncio_loop
        gathering = asyncio.run_coroutine_threadsafe(self._gather(waiting), loop)
        while not wait([gathering], _POLL).done:
            workers = self._client.nthreads()
            lost = [address not in workers for address in self.addresses]
            if (bound and any(lost)) or not workers:
                # otherwise they would wait forever and keep their sessions and blocks alive
                self._client.cancel(waiting)
                return [Lost(gone) for gone in lost]
        try:
            answers = gathering.result()
        except (Exception, asyncio.CancelledError) as error:
            raise self._explained(error, waiting) from None
        self.addresses = [address for _, address in answers]
        return [answer for answer, _ in answers]

    async def _gather(self, waiting: list[Any]) -> list[Any]:
        results: list[Any] = await self._client.gather(waiting, asynchronous=True)
        return results

    def _open(self) -> None:
        """Start sessions on the workers that hold the blocks, or on others if those are full."""
        with suppress(TimeoutError):  # replacements of lost workers may appear in time
            self._client.wait_for_workers(max(self._n_workers, 1), timeout=_RETURN)
        until = time.monotonic() + _PATIENCE
        while not (threads := self._client.nthreads()):  # a new worker may be lost again
            if time.monotonic() > until:
                raise WorkerLost(
                    f"the cluster has had no workers for {_PATIENCE:.0f} seconds; start workers "
                    "and try again"
                )
            with suppress(TimeoutError):
                self._client.wait_for_workers(1, timeout=_POLL)
            time.sleep(0.05)
        self._n_workers = max(self._n_workers, len(threads))
        holders = self._client.who_has([args[0] for args in self._args])
        most = len(self._args) / sum(threads.values())  # sessions per thread
        for args in self._args:
            load = {where: self.addresses.count(where) / threads[where] for where in threads}
            holding = [where for where in holders.get(args[0].key, ()) if where in threads]
            free = [where for where in holding if load[where] < most]
            self.addresses.append(free[0] if free else min(load, key=load.__getitem__))
            options = {"workers": self.addresses[-1:], "allow_other_workers": True}
            key = f"session-{uuid4().hex}"
            self._sessions.append(
                self._client.submit(_session, *args, key=key, pure=False, **options)
            )

    def _submit(self, position: int, messages: Sequence[Any], bound: bool) -> list[Any]:
        from cloudpickle import dumps
        from dask import config

        # totals are common to all blocks, and packed once
        one_of_each = {id(message): message for message in messages}
        packed = {key: dumps(message, protocol=5) for key, message in one_of_each.items()}
        waiting = []
        for session, message, address in zip(self._sessions, messages, self.addresses, strict=True):
            args = session, position, packed[id(message)], _code()
            options = {"retries": 0, "workers": [address] if bound else None}
            key = f"message-{uuid4().hex}"
            with config.set(_LARGE):
                waiting.append(self._client.submit(_deliver, *args, key=key, pure=False, **options))
        return waiting

    def _explained(self, error: BaseException, waiting: Sequence[Any]) -> BaseException:
        """Return an error with a helpful message for a failed task."""
        from distributed import KilledWorker

        tasks = zip(self.names, waiting, strict=True)
        name = next((name for name, task in tasks if task.status == "error"), "a block")
        if isinstance(error, KilledWorker):
            return WorkerLost(worker_lost(name, "repeatedly"))
        if isinstance(error, CancelledError | asyncio.CancelledError):
            return WorkerLost("the cluster no longer has the blocks of X; create the design again")
        # Dask keeps the error, whose traceback would keep the sessions
        error = copy(error.with_traceback(None))
        error.add_note(f"(at {name})")
        return error


def _session(
    block: Any, index: int, bounds: Sequence[int], dtype: str, info: BlockInfo, name: str
) -> Session:
    """Start a session on the worker that holds its block."""
    if info_of(block) != info:
        raise RuntimeError(
            f"{name} was loaded again and its values have changed since the design was created; "
            "create the design and the path again"
        )
    return Session(block, index, bounds, dtype)


def _code() -> str:
    """Return a hash of the numerical code, which must be the same on all workers."""
    return source_hash(*NUMERICAL, "cluster")


def _deliver(session: Session, position: int, packed: bytes, code: str) -> tuple[Answer, str]:
    """Pass a message to a session on its worker; return its answer and the worker's address."""
    from cloudpickle import loads
    from distributed import get_worker

    worker = get_worker()
    if code != _code():
        raise OutOfStep(
            f"the worker {worker.address} uses a different version of steinpath than the client; "
            "install the same version for both and restart the worker"
        )
    with _few_threads(worker.state.nthreads):
        return session.exchange(position, loads(packed)), worker.address


_limiting = threading.Lock()


@contextmanager
def _few_threads(workers_threads: int) -> Iterator[None]:
    """Divide the cores among the threads of a worker, unless others have done so."""
    fair = max(1, (os.cpu_count() or 1) // workers_threads)
    with _limiting:  # two threads that set limits concurrently would not restore the original ones
        too_many = any(library["num_threads"] > fair for library in _libraries().info())
        limit = _libraries().limit(limits=fair) if too_many else nullcontext()
    with limit:
        yield


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
