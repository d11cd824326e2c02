"""Messages in the words of the command: options instead of parameters, lines instead of rows."""

from __future__ import annotations

from steinpath._support.messages import DataError, Remedy, worded

# The option for each parameter that remedies name.
_OPTIONS = {
    "alpha_ratio": "--alpha-ratio {:g}",
    "categories": "--category {!r:.60}",
    "cv": "--time COLUMN",
    "date_format": "--date-format {}",
    "decimal": "--decimal {}",
    "delimiter": "--delimiter",
    "drop": "--drop {!r:.60}",
    "encoding": "--encoding",
    "gap": "--gap {}",
    "groups": "--group COLUMN",
    "keep": "--keep-column {!r:.60}",
    "missing": "--impute",
    "n_iter": "--n-iter {}",
    "na": "--na {!r:.60}",
    "task": "--task {}",
    "thousands": "--thousands {}",
    "workers": "--workers N",
}
# How separators are written on a command line.
_SHELL = {"'": '"\'"', " ": '" "'}


def option(remedy: Remedy) -> str:
    """Return the option of the command that a remedy names."""
    value = remedy.value
    if remedy.parameter == "date_format" and " " in str(value):
        value = f'"{value}"'
    if remedy.parameter == "thousands":
        value = _SHELL.get(value, value)
    if value is None and remedy.parameter in ("categories", "keep", "drop", "na"):
        return _OPTIONS[remedy.parameter].partition(" ")[0]
    return _OPTIONS[remedy.parameter].format(value)


def in_options(error: DataError) -> str:
    """Return the message of an error in the words of the command."""
    place = getattr(error, "place", None)
    return worded(error.message, option) if place is None else worded(error.message, option, place)
