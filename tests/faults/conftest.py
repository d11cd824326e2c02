"""What is shared with the tests of the commands and the studies."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

for _folder in ("app/cli", "study"):
    # first, so that another folder's `conftest` is found before this one
    sys.path.insert(0, str(Path(__file__).parents[1] / _folder))


class Disk:
    """A file system of its own, in memory."""

    def __init__(self, place):
        self.place, self.there = place, False

    def mount(self, options):
        """Mount it with some options, or change those that it has."""
        options = f"remount,{options}" if self.there else options
        command = ["mount", "-t", "tmpfs", "-o", options, "steinpath-test", str(self.place)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("may not mount here")
        self.there = True

    def fill(self, room):
        """Leave so many bytes of room."""
        state = os.statvfs(self.place)
        (self.place / "filler").write_bytes(bytes(state.f_bavail * state.f_frsize - room))


@pytest.fixture
def disk(tmp_path):
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount")
    place = tmp_path / "disk"
    place.mkdir()
    found = Disk(place)
    found.mount("size=1m")
    yield found
    subprocess.run(["umount", "--lazy", str(place)], check=True)
