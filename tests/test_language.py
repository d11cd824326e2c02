"""Words: the standard terms of the field, in all that users and contributors read."""

import re
from pathlib import Path

import click

from steinpath.app.cli import main

ROOT = Path(__file__).parents[1]
#: Phrases that only this project used, and what to write in their place.
REPLACED = {
    r"strengths? of (the )?penalt(y|ies)|--strengths|(?<!regularisation )strengths": "alpha",
    r"count unequally": "non-uniform sample weights",
    r"near copies": "near-duplicate rows",
    r"(much|far) longer than (the )?others": "row norms vary widely",
    r"first look|lost by it": "screened out",
    r"noise of (random )?probes": "Monte Carlo error",
    r"penalty hardly matters": "the smallest alpha on the grid was selected",
    r"an error costs": "scoring loss",
    r"for codes of categories": "as categorical",
    r"say tune|is of --loss": "use `steinpath tune`; requires",
    r"dear": "expensive",
    r"strangers": "untrusted",
    r"decides every bit": "reproducible bit for bit",
}
FORBIDDEN = {
    re.compile(rf"(?<![\w-])({pattern})(?![\w-])", re.IGNORECASE): instead
    for pattern, instead in REPLACED.items()
}
#: Names in the code that DESIGN.md replaced.
NAMES = re.compile(r"\bclass (Kind|Setting|Found|Given|Readings)\b|\bdef (heard|dear|look)\b")


def faults(text):
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern, instead in FORBIDDEN.items():
            if pattern.search(line):
                yield f"line {number}: {line.strip()!r}: write {instead!r}"
        if NAMES.search(line):
            yield f"line {number}: {line.strip()!r}: another name"


def test_pages_and_sources_are_in_standard_terms():
    pages = ("*.md", "docs/*.md", "docs/results/*.md", "docs/*.rst")
    patterns = (*pages, "examples/*.py", "src/**/*.py", "src/**/*.js")
    files = [file for pattern in patterns for file in sorted(ROOT.glob(pattern))]
    found = [
        f"{file.relative_to(ROOT)}, {fault}"
        for file in files
        for fault in faults(file.read_text(encoding="utf-8"))
    ]
    assert len(files) > 150
    assert not found, "\n".join(found)


def test_help_is_in_standard_terms():
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        text = " ".join(command.get_help(click.Context(command, info_name=name)).split())
        assert not [*faults(text)], name
