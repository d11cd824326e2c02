"""Where the command begins, and how it ends: with an exit code and at most one line of error."""

from __future__ import annotations

import io
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

import click

from steinpath._support.printing import printable

#: Something went wrong underway: a file could not be written, the algorithm diverged.
FAILED = 1
#: The command line is not right (click's own).
MISUSED = 2
#: The data cannot be used.
UNUSABLE = 3
#: Stopped by Ctrl-C; what was finished is there.
INTERRUPTED = 130

#: Commands, with the modules that define them and the first sentence of their help. Modules are
#: imported when their command is used, so that `steinpath --help` takes no time.
COMMANDS = {
    "fit": ("fit", "Fit a model to FILE and estimate its error on new data."),
    "tune": ("fit", "Fit several losses and penalties to FILE and keep the best model."),
    "compare": ("fit", "Rank losses and penalties on FILE by estimated risk."),
    "predict": ("predict", "Predict the rows of FILE with a model that fit or tune wrote."),
    "demo": ("demo", "Compare estimated and true risk on simulated data."),
    "study": ("study", "Run a Monte Carlo study."),
    "bench": ("bench", "Time risk estimates and cross-validation on this machine."),
}


class _Main(click.Group):
    """A group that imports commands on use, and prints each error on one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"steinpath.app.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, **options: Any
    ) -> Any:
        said = list(sys.argv[1:] if args is None else args)
        options |= {"obj": shlex.join(["steinpath", *said]), "standalone_mode": False}
        try:
            _make_printable()
            _draw_to_files()
            with _stopping():
                code = super().main(said, **options)
                sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = MISUSED
        except click.UsageError as error:
            help_at = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
            code = _say(f"{error.format_message()}{help_at}", MISUSED)
        except click.ClickException as error:
            code = _say(error.format_message(), error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            code = _say("stopped", INTERRUPTED)
        except BrokenPipeError:
            # whoever read the output has gone; there is nobody left to tell, nor to flush for
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = FAILED
        except Exception as error:
            found = _expected(error)
            if found is None:
                raise
            code = _say(*found)
        sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def handling(number: signal.Signals, handler: Any) -> Iterator[None]:
    """Handle a signal in another way for the while, where this is the main thread."""
    try:
        before = signal.signal(number, handler)
    except ValueError:  # it is not, as in a test
        yield
        return
    try:
        yield
    finally:
        signal.signal(number, before or signal.SIG_DFL)


@contextmanager
def _stopping() -> Iterator[None]:
    """End by Ctrl-C, and by SIGTERM in the same way, whatever becomes of the exception.

    Modules written in C, interrupted while they are imported, say that they cannot be imported.
    """
    stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        signal.default_int_handler(number, frame)

    with handling(signal.SIGINT, stop), handling(signal.SIGTERM, stop):
        try:
            yield
        except Exception:
            if stopped:
                raise KeyboardInterrupt from None
            raise


def _draw_to_files() -> None:
    """Have plots drawn for files, whatever matplotlib's backend is said to be: none has a window.

    A backend that is not there, such as that of a notebook elsewhere, fails when matplotlib or
    pyplot is imported.
    """
    os.environ["MPLBACKEND"] = "agg"
    if (matplotlib := sys.modules.get("matplotlib")) is not None:
        matplotlib.use("agg")


def _make_printable() -> None:
    """Have something to print to that takes every character, one way or another."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever called
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _expected(error: Exception) -> tuple[str, int] | None:
    """Return the message and the exit code of an error that users may meet; None for a bug."""
    if isinstance(error, FloatingPointError | MemoryError | ImportError | OSError):
        return _reason(error), FAILED
    # with lazy commands, these modules are not imported before there is an error
    from steinpath.app.tables import DataError
    from steinpath.cluster._conversation import OutOfStep, WorkerLost

    if isinstance(error, DataError):
        return str(error), UNUSABLE
    if isinstance(error, OutOfStep | WorkerLost):
        return str(error), FAILED
    return None


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; try fewer --n-alphas or --iters"
    if isinstance(error, OSError) and error.strerror:
        what = "the output" if error.filename is None else error.filename
        return f"cannot write {what}: {error.strerror}; make room, or choose another place for it"
    return str(error)


def _say(message: str, code: int) -> int:
    """Print an error, on one line, and return the code to end with."""
    click.echo(f"Error: {printable(' '.join(message.split()))}", err=True)
    return code


@click.group(cls=_Main, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="steinpath")
def main() -> None:
    """Know the test error of every iterate, without a test set.

    Exit codes: 0 done, 1 went wrong underway, 2 a wrong command line, 3 data that cannot be used,
    130 interrupted (what was finished is there).
    """
