"""Entry point of the command: exit codes, and errors on one line."""

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

#: Exit codes: runtime error, wrong command line (as in click), unusable data, and Ctrl-C, after
#: which finished results are written.
FAILED, MISUSED, UNUSABLE, INTERRUPTED = 1, 2, 3, 130

#: Commands, with the modules that define them and the first sentence of their help. Modules are
#: imported when their command is used, so that `steinpath --help` takes no time.
COMMANDS = {
    "fit": ("commands", "Fit a model to FILE and estimate its error on new data."),
    "tune": ("commands", "Fit several losses and penalties to FILE and save the best model."),
    "compare": ("commands", "Rank losses and penalties on FILE by estimated risk."),
    "predict": ("commands", "Predict the rows of FILE with a model from fit or tune."),
    "demo": ("demo", "Compare estimated and true risk on simulated data."),
    "study": ("study", "Run a Monte Carlo study."),
    "bench": ("demo", "Time risk estimates and cross-validation on this machine."),
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
        arguments = list(sys.argv[1:] if args is None else args)
        options |= {"obj": shlex.join(["steinpath", *arguments]), "standalone_mode": False}
        try:
            _make_printable()
            _draw_to_files()
            with _stopping():
                code = super().main(arguments, **options)
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
            # the reader of the output has gone: do not flush, and print nothing
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
    """Temporarily handle a signal differently, in the main thread."""
    try:
        before = signal.signal(number, handler)
    except ValueError:  # not the main thread, as in a test
        yield
        return
    try:
        yield
    finally:
        signal.signal(number, before or signal.SIG_DFL)


@contextmanager
def _stopping() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into KeyboardInterrupt, even if it is caught on the way.

    C extensions that are interrupted during import raise ImportError instead.
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
    """Make matplotlib draw to files, whatever backend is configured.

    A configured backend that is not installed, such as that of a notebook, fails at import.
    """
    os.environ["MPLBACKEND"] = "agg"
    if (matplotlib := sys.modules.get("matplotlib")) is not None:
        matplotlib.use("agg")


def _make_printable() -> None:
    """Make standard output and standard error accept every character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _expected(error: Exception) -> tuple[str, int] | None:
    """Return the message and the exit code of an error that users may meet; None for a bug."""
    if isinstance(error, MemoryError):
        return "there is not enough memory; try a smaller --n-alphas or --n-iter", FAILED
    if isinstance(error, OSError) and error.strerror:
        what = "the output" if error.filename is None else error.filename
        said = f"cannot write {what}: {error.strerror}; free disk space, or write elsewhere"
        return said, FAILED
    # with lazy commands, these modules are not imported before there is an error
    from steinpath._support.messages import DataError
    from steinpath.app.cli.commands import in_options
    from steinpath.cluster import OutOfStep, WorkerLost

    if isinstance(error, DataError):
        return in_options(error), UNUSABLE
    known = FloatingPointError | ImportError | OSError | OutOfStep | WorkerLost
    return (str(error), FAILED) if isinstance(error, known) else None


def _say(message: str, code: int) -> int:
    """Print an error on one line, and return the exit code."""
    click.echo(f"Error: {printable(' '.join(message.split()))}", err=True)
    return code


@click.group(cls=_Main, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="steinpath")
def main() -> None:
    """Know the test error of every iterate, without a test set.

    Exit codes: 0 success, 1 runtime error, 2 usage error, 3 unusable data, 130 interrupted
    (finished results are written).
    """
