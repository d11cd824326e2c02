"""Text that a terminal shows, and does not obey."""

from __future__ import annotations

import json


def printable(text: str) -> str:
    """Return text with a sign in place of every character that would be obeyed or not be seen.

    Those are escapes and other controls, marks that turn the direction of what follows, and halves
    of characters; line ends are left alone.
    """
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def printable_json(text: str) -> str:
    """Return the same JSON, with escapes for what would not be seen; line ends are left alone."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
