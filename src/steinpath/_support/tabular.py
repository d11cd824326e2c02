"""What results with a table have in common."""

from __future__ import annotations

from typing import Any

from steinpath._support.cells import to_frame


class Tabular:
    """A result whose method `to_dict` returns a table as columns by name."""

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError

    def to_frame(self, library: str | None = None) -> Any:
        """Return the table of `to_dict` as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            The library; by default that of X if it was a data frame, and otherwise the first of
            these that is installed.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            The table.
        """
        return to_frame(self.to_dict(), library, getattr(self, "library", None))
