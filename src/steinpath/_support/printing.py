"""Safe text for terminals, and numbers with their standard errors."""

from __future__ import annotations

import json
import math


def printable(text: str) -> str:
    """Replace every control, bidirectional or invisible character of a text.

    These are escape sequences and other control characters, marks that change the text direction,
    and lone surrogates; line ends are kept.
    """
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def printable_json(text: str) -> str:
    """Return equivalent JSON with escapes for invisible characters; line ends are kept."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def with_error(
    value: float, stderr: float, *, signed: bool = False, exponent_from: float = 1e8
) -> str:
    """Format a number with its standard error to two significant digits: "44.0 ± 1.6".

    Parameters
    ----------
    value, stderr : float
        Number and standard error; a standard error that is not finite is omitted.
    signed : bool, default=False
        Whether to write the sign of a positive number.
    exponent_from : float, default=1e8
        Standard error from which on scientific notation is used.
    """
    sign = "+" if signed else ""
    number = to_digits_of(value, stderr, sign=sign, exponent_from=exponent_from)
    if not math.isfinite(stderr):
        return number
    return f"{number} ± {to_digits_of(stderr, stderr, exponent_from=exponent_from)}"


def to_digits_of(value: float, stderr: float, *, sign: str = "", exponent_from: float = 1e8) -> str:
    """Format a number to the precision of its standard error, or to four digits without one.

    Parameters
    ----------
    value, stderr : float
        The number, and its standard error or that of a number it is compared with.
    sign : str, default=""
        Sign option of the format, such as "+".
    exponent_from : float, default=1e8
        Standard error from which on scientific notation is used.
    """
    if not 1e-7 <= stderr < exponent_from:
        return f"{value:{sign}.4g}"
    places = places_of(stderr)
    return f"{round(value, places):{sign},.{max(places, 0)}f}"


def places_of(stderr: float) -> int:
    """Return the decimal place of the second significant digit of a standard error."""
    return 1 - math.floor(math.log10(stderr))
