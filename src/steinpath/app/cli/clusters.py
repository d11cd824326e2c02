"""Clusters for the commands: processes on this machine, or a remote Dask cluster."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from logging import CRITICAL, getLogger
from pathlib import Path
from typing import Any

import click

from steinpath.app.cli.entry import handling

# Share of the memory of this machine for all workers together.
_SHARE_OF_MEMORY = 0.9


def wants_cluster(path: Path, options: dict[str, Any]) -> bool:
    """Whether to use a cluster; refuse options that do not allow it."""
    given = [name for name in ("workers", "cluster") if options[name] is not None]
    if not given:
        return False
    if len(given) > 1:
        raise click.UsageError("--workers and --cluster cannot be used together")
    if not path.is_dir():
        raise click.UsageError(f"--{given[0]} requires a folder of Parquet files, got {path}")
    if options["time"] is not None:
        why = "since rows are not sorted across files"
        raise click.UsageError(f"--time cannot be used with --{given[0]}, {why}")
    return True


@contextmanager
def cluster(workers: int | None, address: str | None) -> Iterator[Any]:
    """Start processes on this machine, or connect to a scheduler; yield a `distributed.Client`."""
    from steinpath.study import StudyError, connected

    share = _SHARE_OF_MEMORY / (workers or 1)
    started = connected(str(workers or address), memory_limit=share, silence_logs=CRITICAL)
    with ExitStack() as stack:
        # no messages about tasks that nobody awaits after Ctrl-C
        logger = getLogger("asyncio")
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(CRITICAL + 1)
        # processes inherit how signals are handled: workers ignore Ctrl-C, and the command ends
        # them; the command itself ignores it only while they start
        ctrl_c = signal.SIG_IGN if workers else signal.getsignal(signal.SIGINT)
        try:
            with handling(signal.SIGINT, ctrl_c):
                client = stack.enter_context(started)
        except StudyError as error:
            raise click.ClickException(str(error)) from error
        yield client
