"""What may come of an input: a right result, or an error that a user can act on."""

import re
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.exceptions import DataConversionWarning, NotFittedError

import steinpath as sp

SOURCE = Path(sp.__file__).parent
HERE = Path(__file__).parent
#: Where scikit-learn refuses what its estimators are given, and its splitters what they are to do.
SKLEARN = re.compile(
    r"sklearn/(utils/(validation|multiclass|_param_validation|_tags)\.py|base\.py|model_selection/_split\.py)"
)
REFUSALS = (
    *(ValueError, TypeError, OverflowError, NotImplementedError, FloatingPointError),
    NotFittedError,
)


class Finding(Exception):
    """Neither a right result nor a clear error."""


@dataclass(frozen=True)
class Refusal:
    """An input that was refused, and in which words."""

    kind: str
    message: str


def evaluate(call):
    """Call something; return its result or a `Refusal`, or raise a `Finding`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except REFUSALS as error:
            result = refusal(error)
        except MemoryError as error:
            result = Refusal("MemoryError", str(error))
        except Exception as error:
            raise Finding(_shown(error)) from error
    for warning in caught:
        # the package's own warnings are of the line that called it
        known = Path(warning.filename).is_relative_to(HERE) or (
            SKLEARN.search(warning.filename) and issubclass(warning.category, UserWarning)
        )
        if not known and not issubclass(warning.category, DataConversionWarning):
            said = f"{warning.category.__name__}: {warning.message}"
            raise Finding(f"a warning leaks: {said} ({warning.filename}:{warning.lineno})")
    return result


def refusal(error):
    """Accept an error that somebody wrote for the user; one from the depths is a finding."""
    frames = traceback.extract_tb(error.__traceback__)
    raised = Path(frames[-1].filename)
    ours = raised.is_relative_to(SOURCE) and "raise" in _statement(frames[-1])
    theirs = any(SKLEARN.search(frame.filename) for frame in frames)
    if not (ours or theirs or raised.is_relative_to(HERE)):
        raise Finding(f"from the depths: {_shown(error)}") from error
    if len(str(error)) < 12:
        raise Finding(f"says nothing: {_shown(error)}") from error
    return Refusal(type(error).__name__, str(error))


def _statement(frame):
    lines = Path(frame.filename).read_text(encoding="utf-8").splitlines()
    return "\n".join(lines[frame.lineno - 1 : frame.end_lineno])


def _shown(error):
    return "".join(traceback.format_exception(error)[-6:])


def check(holds, said):
    """Raise a finding unless something holds."""
    if not holds:
        raise Finding(said)


def check_finite(name, values):
    """Raise a finding if any number is missing."""
    values = np.asarray(values, dtype=float)
    check(np.isfinite(values).all(), f"{name} is not finite: {values.ravel()[:6]}")
