"""Tables of a page that are made of results.

Each stands between ``<!-- table: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, parts: dict[str, Callable[[Any], str]], found: Any) -> str:
    """Return a page with its tables made anew, each by the function of its name."""
    return BLOCK.sub(lambda m: f"{m[1]}\n{parts[m[2]](found).strip()}\n\n{m[3]}", text)
