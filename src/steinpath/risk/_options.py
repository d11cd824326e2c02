"""The options of a risk estimate: one frozen object, checked once and passed on whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from steinpath._support.validation import check_choice, check_count, check_flag, check_number
from steinpath.problem._scoring import PerObservation, TestLoss, resolve_test_loss

#: Names of the methods; see `steinpath.estimate_risk`.
METHOD_NAMES = ("compressed", "spectral", "exact", "hutchinson", "loo", "folds")


@dataclass(frozen=True, eq=False)
class RiskOptions:
    """How a risk is estimated; see the parameters of `steinpath.estimate_risk`."""

    test_loss: TestLoss = None
    covariance: Any = None
    method: str = "auto"
    row_scale: Any = None
    audit: int | str = 0
    n_probes: int | None = None
    probe_tol: float | None = None
    near: int | None = None
    precision: str = "float32"
    centered: bool = False
    #: Whether a quick estimate will do, which only has to say what is worth a better one: as many
    #: folds and probes as it takes for that.
    rough: bool = False

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
            raise ValueError("row_scale='auto' lets the audit choose; ask for one, as audit=32")
        self._store("audit", self._checked_audit())

    def _checked_audit(self) -> int | str:
        if isinstance(self.audit, str):
            if self.audit != "folds":
                raise ValueError(
                    f"audit must be a number of rows, or 'folds'; got {self.audit!r:.60}"
                )
            return self.audit
        rows = check_count("audit", self.audit, low=0)
        if rows == 1:
            raise ValueError("audit must be two rows at least, for a standard error, or 0 for none")
        return rows

    def _store(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def scale_by_audit(self) -> bool:
        """Whether the audit is to choose the row scale."""
        return isinstance(self.row_scale, str) and self.row_scale == "auto"

    @property
    def scale_name(self) -> str | None:
        """Name of the sizes of rows that are used."""
        scale = self.row_scale
        return scale if scale is None or isinstance(scale, str) else "given"

    @property
    def audited_rows(self) -> int:
        """Number of rows that an audit leaves out one at a time."""
        return 0 if isinstance(self.audit, str) else self.audit

    def but(self, **changes: Any) -> RiskOptions:
        """Return the same options with some changes."""
        return replace(self, **changes)

    def criterion(self, loss: Any) -> PerObservation:
        """Return the test loss, as it goes with the loss of a path."""
        return resolve_test_loss(self.test_loss, loss)
