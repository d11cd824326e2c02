"""The command ``steinpath``."""

from steinpath.app.cli.entry import main

__all__ = ["main"]
