"""Exact medians of distributed numbers, with few numbers communicated.

Each worker sorts its numbers and sends some of them, evenly spaced, as marks. The marks bound the
rank of any value, and so give an interval that contains the median of all numbers. Each worker then
sends its numbers in that interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from steinpath.app.encoding.facts import middle_ranks

# Marks of each worker: about 2 n / _MARKS of n numbers are in the interval.
_MARKS = 512


class Marks(NamedTuple):
    """Some numbers of one worker, sorted, their ranks there, and the count of its numbers."""

    size: int
    ranks: np.ndarray
    values: np.ndarray


class Within(NamedTuple):
    """Distinct numbers of one worker in an interval, their counts, and the count below it."""

    below: int
    values: np.ndarray
    counts: np.ndarray


def marks_of(numbers: np.ndarray) -> Marks:
    """Return the marks of numbers, including the smallest and the largest."""
    step = -(-len(numbers) // _MARKS) or 1
    ranks = np.arange(0, len(numbers), step)
    if len(numbers):
        ranks = np.append(ranks, len(numbers) - 1)
    return Marks(len(numbers), ranks, np.sort(numbers)[ranks])


def bracket(marks: Sequence[Marks]) -> tuple[float, float]:
    """Return an interval that contains the middle values of all numbers."""
    low, high = middle_ranks(sum(each.size for each in marks))
    ends = np.unique(np.concatenate([each.values for each in marks]))
    below, up_to = np.zeros(len(ends), int), np.zeros(len(ends), int)
    for each in marks:
        # upper bound of the count below an end: ranks up to the first mark that is not below
        below += np.append(each.ranks, each.size)[np.searchsorted(each.values, ends, "left")]
        # lower bound of the count not above it: ranks up to the last mark that is not above
        up_to += np.append(0, each.ranks + 1)[np.searchsorted(each.values, ends, "right")]
    return float(ends[below <= low][-1]), float(ends[up_to > high][0])


def within(numbers: np.ndarray, interval: tuple[float, float]) -> Within:
    """Return the numbers in an interval."""
    low, high = interval
    inside = numbers[(numbers >= low) & (numbers <= high)]
    return Within(int((numbers < low).sum()), *np.unique(inside, return_counts=True))


def middle_of_all(found: Sequence[Within], count: int) -> tuple[float, float]:
    """Return the two middle values of all numbers, from those in an interval around them."""
    values = np.concatenate([each.values for each in found])
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(np.concatenate([each.counts for each in found])[order])
    ranks = np.array(middle_ranks(count)) - sum(each.below for each in found)
    low, high = values[order][np.searchsorted(ends, ranks, "right")]
    return float(low), float(high)
