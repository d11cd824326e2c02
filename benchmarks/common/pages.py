"""Update the tables of a page that are generated from results.

Each table is between ``<!-- table: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, parts: dict[str, Callable[[Any], str]], found: Any) -> str:
    """Return a page with each table replaced by the result of the function of its name."""
    return BLOCK.sub(lambda m: f"{m[1]}\n{parts[m[2]](found).strip()}\n\n{m[3]}", text)
