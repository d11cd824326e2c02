"""Data frames of pandas and polars, neither of which is needed otherwise."""

from __future__ import annotations

from typing import Any

from steinpath._support.validation import check_choice

LIBRARIES = ("pandas", "polars")


def library_of(values: Any) -> str | None:
    """Return the library of a data frame; None for anything else."""
    kind, library = type(values), type(values).__module__.partition(".")[0]
    # the columns of a lazy frame are expensive
    frame = hasattr(kind, "columns") and not hasattr(kind, "collect")
    return library if library in LIBRARIES and frame else None


def to_frame(columns: dict[str, Any], library: str | None, like: str | None = None) -> Any:
    """Return columns as a data frame.

    Parameters
    ----------
    columns : dict
        The columns by their names.
    library : {"pandas", "polars"}, optional
        The library asked for.
    like : {"pandas", "polars"}, optional
        The library of the data, which is the default. Otherwise it is the first one installed.
    """
    if library is not None:
        check_choice("library", library, LIBRARIES)
    first = (library,) if library else tuple(dict.fromkeys((like or "pandas", *LIBRARIES)))
    for name in first:
        try:
            return _frame_class(name)(columns)
        except ImportError:
            continue
    raise ImportError(
        f"to_frame needs {library or 'pandas or polars'}; install it, or use to_dict()"
    )


def _frame_class(library: str) -> Any:
    if library == "pandas":
        import pandas

        return pandas.DataFrame
    import polars

    return polars.DataFrame
