"""``python -m steinpath``: the command, where it is not on the path."""

from steinpath.app.cli import main

main(prog_name="steinpath")
