"""Callbacks of scikit-learn, if the installed version has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from steinpath._support.arrays import Array
from steinpath.design._transformed import InterceptDesign
from steinpath.engine._data import RunData
from steinpath.engine._loop import Watch
from steinpath.estimators._rows import PreparedRows

__all__ = ["CallbackSupportMixin", "Progress", "with_callbacks"]

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """A placeholder."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method unchanged."""
        return method


class Progress:
    """Calls the callbacks of an estimator during its fit, after every iteration.

    ``known`` has attributes that are known before the fit begins.
    """

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any, known: dict[str, Any]):
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._facts = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        # number of iterations, if it is known
        self._n_iter = None if isinstance(estimator.n_iter, str) else estimator.n_iter
        self._known = known
        self._root: Any = None  # contexts of the fit and of the current iteration
        self._open: Any = None
        if hasattr(estimator, "_init_callback_context"):
            self._root = estimator._init_callback_context(max_subtasks=self._n_iter)
            self._root.call_on_fit_task_begin(**self._facts)
        self._anyone_listens = bool(getattr(estimator, "_skl_callbacks", ()))

    def watch(self, rows: PreparedRows, data: RunData, known: int) -> Watch | None:
        """Return the function to call after each iteration; None without callbacks.

        ``known`` is the number of iterations of a warm start. With a single penalty, callbacks are
        passed the model of the iterate.
        """
        if self._root is None or not self._anyone_listens or known == self._n_iter:
            return None

        estimator = self._facts["estimator"]

        def model(b: Array) -> dict[str, Any]:
            intercept = 0.0
            if isinstance(data.design, InterceptDesign):
                intercept = float(data.design.intercepts(b.T)[0] + data.level[0])
            coef = b[: rows.scale.shape[0], 0]
            own: dict[str, Any] = estimator._model(*rows.own_units(coef, intercept))
            return self._known | own

        def after(t: int, b: Array) -> bool:
            if self._open is None:
                self._open = self._begin()
            attributes = partial(model, b) if b.shape[1] == 1 else None
            stop = self._open.call_on_fit_task_end(
                **self._facts, reconstruction_attributes=attributes
            )
            # whether there is a next iteration may be unknown until it has run
            unsure = self._n_iter is None or t == self._n_iter
            self._open = None if stop or unsure else self._begin()
            return bool(stop)

        if self._n_iter is not None:
            self._open = self._begin()
        return after

    def end(self) -> None:
        """Report the end of the fit."""
        if self._root is not None:
            self._root.call_on_fit_task_end(**self._facts, reconstruction_attributes=dict)

    def _begin(self) -> Any:
        context = self._root.subcontext(task_name="iteration")
        return context.call_on_fit_task_begin(**self._facts)
