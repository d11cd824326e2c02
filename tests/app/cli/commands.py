"""Running the command as a user does."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from click.testing import CliRunner

from steinpath.app.cli import main

COMMAND = [sys.executable, "-m", "steinpath"]


def call(*arguments, code=0):
    """Call the command in this process, and look at its exit code."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def refused(*arguments, code=3):
    """Call the command, and return the one line that it ends with."""
    result = call(*arguments, code=code)
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("Error: ")
    return lines[0]


def spawn(*arguments, **options):
    """Run the command in a process of its own."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options
    )


def houses(n=120, seed=0):
    """A table with columns of every kind, and heavy-tailed noise."""
    rng = np.random.default_rng(seed)
    area, rooms = rng.uniform(30, 200, n), rng.integers(1, 7, n)
    town = rng.choice(["Köln", "Paris", "東京"], n, p=[0.5, 0.3, 0.2])
    garden = rng.choice(["no", "yes"], n)
    sold = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), unit="D")
    price = 3 * area + 20 * (town == "Paris") + 15 * (garden == "yes") + 10 * rng.standard_t(2, n)
    return pd.DataFrame(
        {
            "Fläche m²": area.round(2),
            "rooms": rooms,
            "town": town,
            "garden": garden,
            "sold": sold.strftime("%Y-%m-%d"),
            "price": price.round(3),
        }
    )


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, *arguments, cwd):
        self.master, slave = pty.openpty()
        environment = os.environ | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=environment,
        )
        os.close(slave)
        self.seen = ""

    def wait_for(self, pattern, seconds=120):
        """Read until something is on the screen."""
        until = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            assert time.monotonic() < until, self.seen[-500:]
            if not self._read():
                raise AssertionError(f"ended without {pattern!r}: {self.seen[-500:]}")

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self, seconds=120):
        """Read all that is left; return the exit code."""
        until = time.monotonic() + seconds
        while self._read():
            if time.monotonic() > until:
                self.process.kill()
                raise AssertionError(f"still running after {seconds} s: {self.seen[-500:]}")
        return self.process.wait(60)

    def _read(self):
        ready, _, _ = select.select([self.master], [], [], 1)
        if not ready:
            return self.process.poll() is None
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


def bounds(model, table, level):
    """Prediction intervals of a pipeline of an encoder and an estimator."""
    return model[-1].predict_interval(model[:-1].transform(table), level)


def write(folder: Path, name="houses.csv", table=None):
    """Write a table to a file, and return its name."""
    file = folder / name
    table = houses() if table is None else table
    table.to_csv(file, index=False)
    return file
