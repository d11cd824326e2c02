"""The command ``steinpath``, which is also ``python -m steinpath``.

Nothing that takes time is imported with this module: Ctrl-C ends the command in one line, with exit
code 130, from the first moment on.
"""

import atexit
import os
import signal
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command, in a process of its own."""
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # and not ignored
    if heeded:
        signal.signal(signal.SIGINT, _leave)
    interrupted: list[bool] = []
    atexit.register(_end, interrupted)  # the first one is called last
    from steinpath.app.cli import main as command

    try:
        if heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command(prog_name="steinpath")
    except SystemExit as ended:
        interrupted += [True] * (ended.code == _INTERRUPTED)
        raise
    except KeyboardInterrupt:  # before the command minded it, or once more while it ended
        _leave()
    finally:
        if heeded:  # all has been said, and Python's own ending has nothing to add
            signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))


def _end(interrupted: list[bool]) -> None:
    """Keep the exit code: after interrupted code in a string, Python would end by the signal."""
    if interrupted:
        sys.stdout.flush()
        os._exit(_INTERRUPTED)


def _leave(*_: object) -> None:
    """End at once: modules that are interrupted while they are imported may hide the reason."""
    os.write(2, b"\nError: stopped\n")
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
