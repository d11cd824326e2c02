"""The same columns, given in several ways."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa

DAYS = [dt.date(2020, 1, 1), dt.date(2021, 5, 6), dt.date(1999, 12, 31)]
TIMES = [dt.datetime(day.year, day.month, day.day) for day in DAYS]
ZONED = [time.replace(tzinfo=dt.UTC) for time in TIMES]
USUAL = {
    "x": pa.array([1.0, 2.5, -3.0]),
    "day": pa.array(DAYS),
    "town": pa.array(["A", "007", "B"]),
    "flag": pa.array([True, False, True]),
}
#: Ways to give the same columns.
OTHERS = {
    "usual": {},
    "single": {"x": pa.array([1.0, 2.5, -3.0], pa.float32())},
    "numbers as text": {"x": pa.array(["1", " 2.50 ", "-3e0"])},
    "numbers as large text": {"x": pa.array(["1", "2.5", "-3"], pa.large_string())},
    "decimals": {"x": pa.array([Decimal("1.0"), Decimal("2.5"), Decimal("-3.0")])},
    "numbers as levels": {"x": pa.array(["1", "2.5", "-3"]).dictionary_encode()},
    "dates as text": {"day": pa.array([str(day) for day in DAYS])},
    "dates as levels": {"day": pa.array([str(day) for day in DAYS]).dictionary_encode()},
    "times": {"day": pa.array(TIMES, pa.timestamp("ns"))},
    "times as text": {"day": pa.array([f"{time.isoformat()}+00:00" for time in TIMES])},
    "times of a zone": {"day": pa.array(ZONED, pa.timestamp("us", "Asia/Tokyo"))},
    "levels": {"town": USUAL["town"].dictionary_encode()},
    "flags as text": {"flag": pa.array(["True", "FALSE", "true"])},
    "flags as levels": {"flag": pa.array(["true", "false", "true"]).dictionary_encode()},
}
