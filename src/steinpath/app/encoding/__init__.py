"""Features from columns: the same for training and new rows, stored as JSON."""

from steinpath.app.encoding.column import OTHER, Column
from steinpath.app.encoding.encoded import ColumnSummary, Encoded, RemoteFeatures, encode
from steinpath.app.encoding.encoding import Encoding

__all__ = [
    "OTHER",
    "Column",
    "ColumnSummary",
    "Encoded",
    "Encoding",
    "RemoteFeatures",
    "encode",
]
