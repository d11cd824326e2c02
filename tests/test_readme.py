"""The README's example prints what the README says."""

import contextlib
import io
import re
from pathlib import Path


def test_example():
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    said = re.search(r"```text\n(.*?)```", text, re.DOTALL)[1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == said
