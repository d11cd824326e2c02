"""Tables as CSV and Markdown, figures as PDF and PNG."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from steinpath._support.files import as_csv
from steinpath.study._base import Exhibit, Table
from steinpath.study._store import write_bytes, write_text

# Significant digits of numbers in tables.
_DIGITS = ".10g"


def write_summary(folder: Path, table: Table) -> list[Path]:
    """Write the summary table as CSV and Markdown."""
    files = [folder / "summary.csv", folder / "summary.md"]
    write_text(files[0], as_csv(table, _DIGITS))
    write_text(files[1], as_markdown(table))
    return files


def write_tables(folder: Path, exhibits: Iterable[Exhibit]) -> list[Path]:
    """Write the tables of the figures."""
    files = []
    for exhibit in exhibits:
        files.append(folder / f"{exhibit.name}.csv")
        write_text(files[-1], as_csv(exhibit.table, _DIGITS))
    return files


class FigureError(ImportError):
    """Figures could not be drawn, for example without matplotlib; tables were written."""


def write_figures(folder: Path, exhibits: Iterable[Exhibit]) -> list[Path]:
    """Write the figures as PDF and PNG.

    Raises
    ------
    FigureError
        If drawing fails. Errors in writing the files are raised as OSError.
    """
    from steinpath.plots import drawn_as, import_pyplot

    pyplot = import_pyplot()
    files = []
    for name, table, draw in exhibits:
        try:
            figure = draw(table)
            contents = {
                "pdf": drawn_as(figure, "pdf", metadata={"CreationDate": None}),
                "png": drawn_as(figure, "png", dpi=100),
            }
            pyplot.close(figure)
        except (OSError, MemoryError):
            raise
        except Exception as error:
            raise FigureError(str(error) or type(error).__name__) from error
        for kind, content in contents.items():
            files.append(folder / f"{name}.{kind}")
            write_bytes(files[-1], content)
    return files


def as_markdown(table: Table) -> str:
    """Return a table as Markdown, rounded for reading."""
    head = list(table[0])
    body = [[cell(row[name]).replace("|", "\\|") for name in head] for row in table]
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *body])


def cell(value: Any) -> str:
    """Format a value for display."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
