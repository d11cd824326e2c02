"""Options of a risk estimate: one frozen object, checked once and passed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from steinpath._support.arrays import Array, to_numpy
from steinpath._support.validation import check_choice, check_count, check_flag, check_number
from steinpath.engine._batch import Batch
from steinpath.engine._path import Path
from steinpath.engine._traces import row_squares_of, second_moments
from steinpath.problem._scoring import PerObservation, TestLoss, about_level, resolve_test_loss
from steinpath.risk._splits import Splits, check_cv, check_groups, read_splits

#: Names of the methods; see `steinpath.estimate_risk`.
METHOD_NAMES = ("compressed", "spectral", "exact", "hutchinson", "loo", "folds")
#: Methods that leave rows out; the others assume independent rows.
LEAVE_OUT = ("loo", "folds")
#: Methods whose traces need all rows in one place.
NEED_ALL_ROWS = ("exact", "hutchinson")


@dataclass(frozen=True, eq=False)
class RiskOptions:
    """Options of a risk estimate; see the parameters of `steinpath.estimate_risk`."""

    test_loss: TestLoss = None
    covariance: Any = None
    method: str = "auto"
    row_scale: Any = None
    audit: int | str = 0
    groups: Any = None
    cv: Any = None
    n_probes: int | None = None
    probe_tol: float | None = None
    near: int | None = None
    precision: str = "float32"
    centered: bool = False
    #: Whether a rough estimate is sufficient, to identify candidates for an accurate one. It uses
    #: as few folds and probes as possible.
    rough: bool = False
    #: The class of each row, by which random folds are stratified, if there are more than two.
    strata: np.ndarray | None = None

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> RiskOptions:
        """Return the options among the arguments of a function; others are ignored."""
        names = [option.name for option in fields(cls)]
        return cls(**{name: arguments[name] for name in names if name in arguments})

    def __post_init__(self) -> None:
        check_choice("method", self.method, ("auto", *METHOD_NAMES))
        check_choice("precision", self.precision, ("float32", "float64"))
        check_flag("centered", self.centered)
        if self.n_probes is not None:
            self._store("n_probes", check_count("n_probes", self.n_probes))
        if self.probe_tol is not None:
            check_number("probe_tol", self.probe_tol, low=0, open_low=True)
        if self.near is not None:
            self._store("near", check_count("near", self.near, low=0))
        if self.scale_by_audit and not self.audit:
            raise ValueError(
                "row_scale='auto' is selected by the audit; set audit, for example audit=32"
            )
        self._store("audit", self._checked_audit())
        if self.groups is not None:
            self._store("groups", check_groups(self.groups))
        if self.cv is not None:
            self._store("cv", check_cv(self.cv))
        self._check_splits()

    def _check_splits(self) -> None:
        """Refuse methods that would ignore groups or splits."""
        given = "groups" if self.cv is None else "cv"
        if self.method not in ("auto", *LEAVE_OUT) and self.has_splits and not self.audit:
            raise ValueError(
                f"method {self.method!r} assumes independent rows and would ignore {given}; use "
                "method='folds', or check the estimate with audit='folds'"
            )
        if self.cv is not None and self.audited_rows:
            raise ValueError(
                "an audit by number of rows leaves out single rows, not the test rows of cv; use "
                "audit='folds' with a method other than 'loo' and 'folds', or audit=0"
            )
        if self.has_splits and self.covariance is not None and self.method == "auto":
            raise ValueError(
                f"covariance has no effect with {given}, which requires refits without the "
                "held-out rows; omit one of them"
            )
        if self.method == "loo" and self.cv is not None:
            raise ValueError("method 'loo' does not use cv: use method='folds'")

    def _checked_audit(self) -> int | str:
        if isinstance(self.audit, str):
            if self.audit != "folds":
                raise ValueError(
                    f"audit must be a number of rows or 'folds'; got {self.audit!r:.60}"
                )
            return self.audit
        rows = check_count("audit", self.audit, low=0)
        if rows == 1:
            raise ValueError("audit must be at least 2, for a standard error, or 0 for no audit")
        return rows

    def _store(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def scale_by_audit(self) -> bool:
        """Whether the audit selects the row scale."""
        return isinstance(self.row_scale, str) and self.row_scale == "auto"

    @property
    def scale_name(self) -> str | None:
        """Name of the row scale."""
        scale = self.row_scale
        return scale if scale is None or isinstance(scale, str) else "given"

    @property
    def audited_rows(self) -> int:
        """Number of rows that an audit leaves out one at a time."""
        return 0 if isinstance(self.audit, str) else self.audit

    @property
    def has_splits(self) -> bool:
        """Whether groups or splits specify rows to leave out together."""
        return self.groups is not None or self.cv is not None

    def units(self, n_rows: int) -> int:
        """Return the number of independent units: groups if there are any, else rows."""
        return n_rows if self.groups is None else int(self.groups.max()) + 1

    @property
    def rough_folds(self) -> RiskOptions:
        """Return the options of a rough estimate by folds."""
        return self.but(method="folds", audit=0, row_scale=None, rough=True)

    def for_rows(self, y: np.ndarray) -> RiskOptions:
        """Return the options with the splits of these rows; refuse those of other rows."""
        n, groups, cv = len(y), self.groups, self.cv
        if groups is not None and len(groups) != n:
            raise ValueError(f"groups has {len(groups)} labels, but there are {n} rows")
        if cv is None:
            return self
        if isinstance(cv, int):
            most, what = self.units(n), "rows" if groups is None else "groups"
            if cv > most:
                raise ValueError(f"cv={cv} folds, but there are only {most} {what}")
            return self
        if not isinstance(cv, Splits):
            cv = read_splits(cv, y, groups)
        if len(cv.train) != n:
            raise ValueError(f"cv splits {len(cv.train)} rows, but there are {n}")
        for k in range(cv.n_splits) if groups is not None else ():
            both = np.intersect1d(groups[cv.train[:, k]], groups[cv.test[:, k] > 0])
            if len(both):
                row = int(np.flatnonzero(groups == both[0])[0])
                raise ValueError(
                    f"split {k} of cv trains and tests on rows of the same group (that of row "
                    f"{row}); use a splitter for groups, such as GroupKFold"
                )
        return self.but(cv=cv)

    def some_rows(self, rows: np.ndarray) -> RiskOptions:
        """Return the options for some rows, possibly repeated."""
        groups, cv = self.groups, self.cv
        if isinstance(cv, Splits):
            cv = cv.rows(rows)
            kept = np.flatnonzero(cv.train.any(axis=0) & cv.test.any(axis=0))
            if not len(kept):
                raise ValueError(
                    "no split of cv has both training and test rows with positive weight"
                )
            cv = cv.at(kept)
        groups, strata = (None if x is None else x[rows] for x in (groups, self.strata))
        return self.but(groups=groups, cv=cv, strata=strata)

    def but(self, **changes: Any) -> Self:
        """Return the same options with some changes."""
        return replace(self, **changes)

    def resolved(
        self,
        batch: Batch,
        rngs: Sequence[np.random.Generator],
        test_losses: Sequence[TestLoss] | None = None,
    ) -> list[ResolvedOptions]:
        """Return the options of each path of a batch, which may have their own scoring losses."""
        options = self.for_rows(to_numpy(batch.data.all_y))
        scale = None if options.scale_by_audit else options.row_scale
        test_losses = [self.test_loss] * len(batch) if test_losses is None else test_losses
        results: list[ResolvedOptions] = []
        for path, rng, test_loss in zip(batch, rngs, test_losses, strict=True):
            moments, squares = None, None
            if results and path.design is results[0].path.design:
                moments, squares = results[0].moments, results[0].row_squares
            else:
                squares = row_squares_of(path, scale)
                if options.covariance is not None and results and not path.fit_intercept:
                    moments = results[0].moments  # the same for all members
                elif options.covariance is not None:
                    moments = second_moments(path, options.covariance)
            # class weights depend on the labels of all rows
            y = path.data.all_y if path.loss.margin else path.y
            criterion = resolve_test_loss(test_loss, path.loss)
            criterion = about_level(criterion, y, path.level, path.data.sample_weight)
            own: dict[str, Any] = {"path": path, "criterion": criterion, "rng": rng}
            own |= {"moments": moments, "row_squares": squares}
            results.append(ResolvedOptions(**vars(options), **own))
        return results


@dataclass(frozen=True, eq=False, kw_only=True)
class ResolvedOptions(RiskOptions):
    """Options of the estimate for one path: the input of all methods."""

    path: Path
    criterion: PerObservation
    rng: np.random.Generator
    moments: Array | None = None
    row_squares: Array | None = None

    def __post_init__(self) -> None:
        pass  # checked before
