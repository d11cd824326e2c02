"""Confidence intervals for the coefficients of a fitted estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from steinpath._support.arrays import to_numpy
from steinpath._support.validation import warn
from steinpath.engine._data import RunData
from steinpath.engine._path import Path
from steinpath.engine._run import run
from steinpath.estimators._base import PathEstimator
from steinpath.inference._coefficient_intervals import CoefficientIntervals
from steinpath.inference._estimate_intervals import coefficient_intervals
from steinpath.problem._penalties import Penalty
from steinpath.risk._evidence import features_of


class WithCoefficientIntervals(PathEstimator):
    """Estimator with intervals for its coefficients."""

    def coef_intervals(
        self, features: Any = None, level: float = 0.95, without: Any = None, names: Any = None
    ) -> CoefficientIntervals | list[CoefficientIntervals]:
        """Return confidence intervals for the coefficients of the linear model.

        The estimates are debiased for the penalty and early stopping, and computed from an early
        iterate, where intervals are short; see `steinpath.coefficient_intervals` for the
        assumptions. Those of a classifier are for the coefficients up to one common factor: they
        are tests of features, with signs and ratios of effects.

        They are not adjusted for selection of ``alpha``, on which early iterates hardly depend. If
        `groups` were passed to `fit`, standard errors are cluster-robust. The training data are
        used again and must be unchanged; pickled models do not contain them.

        Parameters
        ----------
        features : array-like of int or of str, optional
            Columns of X, by index or by name; all by default. If X has fewer than three rows per
            column, each feature requires a regression on the others.
        level : float, default=0.95
            Confidence level of each interval.
        without : array-like of int, optional
            Columns to leave out, such as the reference level of each category
            (`TableEncoder.reference_features_`), since only differences between the levels of a
            category are identified. The selected ``alpha`` is run again without these columns.
        names : array-like of str, optional
            Names of the columns of X; by default those of a data frame.

        Returns
        -------
        CoefficientIntervals, or list of CoefficientIntervals
            Intervals in the original units of X; one for each quantile if there are several, which
            assume errors that do not depend on the features, and one for each class against the
            rest if there are more than two. Rows have the names of the features,
            and ``to_frame()`` returns a data frame of the same library as X.
        """
        check_is_fitted(self)
        if hasattr(self, "terms_") and self.terms_.pairs.size:
            raise ValueError(
                "y selected the products of the model, and intervals of their coefficients would "
                "be too short; use products=False in the TableEncoder"
            )
        if hasattr(self, "estimators_"):
            return [one.coef_intervals(features, level, without, names) for one in self.estimators_]
        if "_path" not in vars(self):
            raise ValueError(
                "coefficient intervals need the rows of the fit, which a pickled, copied or loaded "
                "model does not contain; fit it again"
            )
        if names is None:
            names = getattr(self, "feature_names_in_", None)
        wanted, scale = _indices(features, names), to_numpy(self.scale_)
        if hasattr(self, "terms_"):
            wanted, without = (self.terms_.places(columns) for columns in (wanted, without))
            names = None if names is None else self.terms_.names(names)
        if without is None or not len(without):
            path = self._path()
        else:
            kept = np.delete(np.arange(len(scale)), without)
            path, scale = _path_of(kept, *self._path.args[1:]), scale[kept]
            names = None if names is None else np.asarray(names, object)[kept]
            if wanted is not None:
                wanted = np.atleast_1d(wanted).tolist()
                if absent := [j for j in wanted if j not in kept]:
                    raise ValueError(f"column {absent[0]} is in without and has no interval")
                wanted = np.searchsorted(kept, wanted)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        scales = "norm" if isinstance(self.row_scale, str) else self.row_scale
        how = {"rng": seed, "row_scale": scales, "groups": self._groups, "names": names}
        intervals = coefficient_intervals(path, features=wanted, level=level, **how)
        for message in intervals.warnings:
            warn(message)
        return replace(intervals.rescaled(scale), library=self._frame_library)


def _indices(features: Any, names: np.ndarray | None) -> Any:
    """Return column indices of features that are given by name."""
    features = [features] if isinstance(features, str) else features
    if np.ndim(features) == 0 or not any(isinstance(feature, str) for feature in features):
        return features
    if names is None:
        raise ValueError(
            "features are given by name, but X had no column names in fit; use column indices"
        )
    places = {name: place for place, name in enumerate(names)}
    if unknown := [name for name in features if name not in places]:
        raise ValueError(f"X had no column {unknown[0]!r} in fit")
    return [places[name] for name in features]


def _path_of(
    columns: np.ndarray, data: RunData, penalty: Penalty, algorithm: Any, n_iter: int
) -> Path:
    """Return the path of a penalty for some of the columns."""
    part = features_of(data.design).unweighted.part(None, columns)
    if part is None:
        raise ValueError("without is not available for this type of X; fit without these columns")
    # step sizes that are stable for all columns are stable for some of them
    how: dict[str, Any] = {"fit_intercept": data.fit_intercept, "sample_weight": data.sample_weight}
    return run(part, data.all_y, data.loss, penalty, algorithm, n_iter, **how)
