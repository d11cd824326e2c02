"""Text that a terminal shows, and does not obey; numbers with their standard errors."""

from __future__ import annotations

import json
import math


def printable(text: str) -> str:
    """Return text with a sign in place of every character that would be obeyed or not be seen.

    Those are escapes and other controls, marks that turn the direction of what follows, and halves
    of characters; line ends are left alone.
    """
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def printable_json(text: str) -> str:
    """Return the same JSON, with escapes for what would not be seen; line ends are left alone."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def with_error(
    value: float, stderr: float, *, signed: bool = False, exponent_from: float = 1e8
) -> str:
    """Return a number with its standard error, to two digits of the latter: "44.0 ± 1.6".

    Parameters
    ----------
    value, stderr : float
        Both; a standard error that is not finite is left out.
    signed : bool, default=False
        Whether to write the sign of a positive number, too.
    exponent_from : float, default=1e8
        From which standard error on to write powers of ten.
    """
    sign = "+" if signed else ""
    number = to_digits_of(value, stderr, sign=sign, exponent_from=exponent_from)
    if not math.isfinite(stderr):
        return number
    return f"{number} ± {to_digits_of(stderr, stderr, exponent_from=exponent_from)}"


def to_digits_of(value: float, stderr: float, *, sign: str = "", exponent_from: float = 1e8) -> str:
    """Return a number with the digits that its standard error leaves it, or four.

    Parameters
    ----------
    value, stderr : float
        The number, and a standard error: its own, or of one that it is compared with.
    sign : str, default=""
        Of a format, such as "+".
    exponent_from : float, default=1e8
        From which standard error on to write powers of ten.
    """
    if not 1e-7 <= stderr < exponent_from:
        return f"{value:{sign}.4g}"
    places = places_of(stderr)
    return f"{round(value, places):{sign},.{max(places, 0)}f}"


def places_of(stderr: float) -> int:
    """Return the decimal place of the second digit of a standard error."""
    return 1 - math.floor(math.log10(stderr))
