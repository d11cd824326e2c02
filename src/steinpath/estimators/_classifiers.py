"""Classifiers: two classes with any labels, and more than two classes one-vs-rest."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score, confusion_matrix
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from steinpath._support.arrays import Array, beside, is_foreign, like, namespace, to_numpy
from steinpath._support.printing import with_error
from steinpath._support.validation import check_choice, read_array
from steinpath.estimators._base import GeneralEstimator, NamedEstimator, Part, PathEstimator
from steinpath.estimators._coef_intervals import WithCoefficientIntervals
from steinpath.estimators._docstrings import documented, of_features
from steinpath.estimators._fit import PreparedRows
from steinpath.estimators._regressors import PathRegressor
from steinpath.estimators._scores import ERROR_RATE, OF_CLASSES, Decisions, Score, proportion
from steinpath.problem._grid import PenaltyOf
from steinpath.problem._losses import Loss
from steinpath.problem._margins import (
    Hinge,
    Logistic,
    check_class_weight,
    class_probabilities,
    log_class_probabilities,
)
from steinpath.problem._penalties import ElasticNet, Lasso, Ridge
from steinpath.problem._scoring import CRITERIA, MarginCriterion
from steinpath.risk._held_out import RowSample
from steinpath.risk._splits import check_groups, refuse_missing
from steinpath.tuning._tuning import Tuning


def read_labels(y: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, and the index of the class of each row, for the estimator of a name."""
    if y is None:
        raise ValueError(
            f"This {name} estimator requires y to be passed, but the target y is None."
        )
    if hasattr(type(y), "compute"):  # of Dask
        y = y.compute()
    if isinstance(y, np.ma.MaskedArray) and np.ma.getmaskarray(y).any():
        raise ValueError(f"y is masked in row {int(np.ma.getmaskarray(y).ravel().argmax())}")
    labels = column_or_1d(_on_host("y", y), warn=True)
    if labels.dtype == object:  # perhaps all of one type
        refuse_missing("y", labels)
        plain = np.asarray(labels.tolist())
        labels = plain if plain.ndim == 1 and plain.dtype.kind in "iub" else labels
    if labels.dtype.kind not in "iub":
        refuse_missing("y", labels.tolist())
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        # numbers may be too large for integers; rare classes have an error of their own
        warnings.simplefilter("ignore", UserWarning)
        check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs at least two classes, but all labels in y are of one class: "
            + ", ".join(map(repr, classes.tolist()))
        )
    return classes, codes.reshape(-1)


def _on_host(name: str, values: Any) -> Any:
    """Return labels or weights on the host."""
    return to_numpy(read_array(name, values)) if is_foreign(values) else values


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(ClassifierMixin, WithCoefficientIntervals, PathEstimator):  # type: ignore[misc]
    """Base class of classifiers; see `PathClassifier` for the parameters."""

    class_weight: Any = None

    score = PathEstimator.score  # the mixin's does not read arrays of other libraries

    def _parts(self, y: Any, sample_weight: Any) -> list[Part] | None:
        classes, codes = read_labels(y, type(self).__name__)
        check_class_weight(self.class_weight, classes.tolist())
        counts = _counts(codes, sample_weight)
        _check_counts(classes, codes[counts > 0], sample_weight, type(self).__name__)
        if len(classes) == 2:
            return None
        # the error rate of one class is often smallest if that class is never predicted
        other = {"test_loss": None} if self.test_loss == ERROR_RATE else {}
        parts = []
        for k, label in enumerate(classes.tolist()):
            weight = _against_the_rest(self.class_weight, classes, codes, counts, k)
            own = {"class_weight": weight, **other}
            parts.append(Part(f"class {label!r}: ", (codes == k).astype(int), own, codes))
        return parts

    def _together(
        self, fitted: list[PathEstimator], parts: Sequence[Part], *data: Any
    ) -> dict[str, Any]:
        attributes = super()._together(fitted, parts, *data)
        X, y, sample_weight, groups = data
        for name in ("coef_", "intercept_"):  # these have an axis of length 1 for the class
            attributes[name] = attributes[name][:, 0, ...]
        classes, codes = read_labels(y, type(self).__name__)
        attributes["classes_"] = _labels_beside(classes, attributes["coef_"])
        if not hasattr(fitted[0], "left_out_decision_"):
            return attributes
        decisions = [one.left_out_decision_ for one in fitted]
        attributes["left_out_decision_"] = namespace(*decisions).stack(decisions, axis=1)
        new = type(self)(**self.get_params(deep=False))
        new.__dict__ |= attributes
        new._keep_scores(X, codes, sample_weight, groups)
        return {name: getattr(new, name) for name in vars(new) if name.endswith("_")}

    def _begin(self, given: tuple[Any, Any, Any, Any], *how: Any) -> Any:
        X, y, *others = given
        self.classes_, codes = read_labels(y, type(self).__name__)
        if isinstance(self.class_weight, Mapping):
            first, second = (self.class_weight.get(label, 1.0) for label in self.classes_.tolist())
            self.class_weight = {-1: first, 1: second}
        return super()._begin((X, 2.0 * codes - 1, *others), *how)

    def _end(self, fit: Any, tuning: Tuning | None) -> None:
        super()._end(fit, tuning)
        X, signs, sample_weight, groups = fit.given
        self.classes_ = _labels_beside(self.classes_, self.coef_)
        if hasattr(self, "left_out_decision_"):
            known = vars(self)["left_out_decision_"]
            missing = np.full(len(signs) - len(known), np.nan)  # rows at the end with weight zero
            self.left_out_decision_ = like(np.append(known, missing), self.intercept_)
            self._keep_scores(X, (signs > 0).astype(int), sample_weight, groups)

    def _keep_left_out(self, tuning: Tuning, rows: PreparedRows) -> None:
        chosen, criterion = tuning.chosen, tuning.risks[0].criterion
        n, y = rows.y.shape[0], to_numpy(rows.y)[chosen.rows]
        self.left_out_decision_ = rows.left_out(chosen)
        # scores are of independent observations: of all copies of repeated rows
        decisions = np.full(n, np.nan)
        decisions[chosen.rows] = chosen.predictions
        sources = np.arange(n) if rows.sources is None else rows.sources
        self._left_out = sources, decisions, chosen.weights
        self._dependence = chosen.dependence
        if isinstance(criterion, MarginCriterion):  # not a function of the user
            self.constant_risk_ = criterion.of_best_constant(y, chosen.row_weights)
        wrong = (1 - np.sign(chosen.predictions) * y) / 2
        self.error_rate_, self.error_rate_stderr_ = chosen.mean_of(wrong)
        if self.test_loss_ == ERROR_RATE and self.class_weight is None:
            self.error_rate_, self.error_rate_stderr_ = tuning.best_risk, tuning.best_risk_stderr

    def _keep_scores(self, X: Any, codes: np.ndarray, sample_weight: Any, groups: Any) -> None:
        """Store scores of out-of-fold predictions, with the dependence of the selection."""
        fitted = getattr(self, "estimators_", [self])
        known = np.stack([one._left_out[1] for one in fitted], axis=1)
        tested = ~np.isnan(known).any(axis=1)
        values, rows = known[tested], fitted[0]._left_out[0][tested]
        actual, units = codes[rows], None if groups is None else check_groups(groups)[rows]
        weights = fitted[0]._left_out[2]
        weights = None if weights is None else weights[tested]
        sample = RowSample.of(len(rows), weights, units)
        decisions = Decisions(values, actual, weights)
        dependence = [one._dependence for one in fitted]
        largest = max(dependence)

        def mean_and_error(name: str) -> tuple[float, float]:
            mean, error = sample.mean_and_error(decisions.losses(name)[None, :])
            return float(mean[0]), float(error[0])

        def score(name: str) -> Score:
            value, stderr = mean_and_error(name)
            if not stderr:  # all rows of each class are right, or all are wrong
                rarest = float(min(np.bincount(actual)))
                stderr = proportion(0.0, 0.0, rarest).stderr / largest
            value = 1 - value if name == "auc" else value
            return Score(value, stderr * largest, decisions.constant(name))

        labels = np.arange(self.classes_.shape[0])
        how: dict[str, Any] = {"labels": labels, "sample_weight": weights}
        counted = confusion_matrix(actual, decisions.predicted, **how)
        self.confusion_ = beside(counted, self.coef_)
        if decisions.several:
            # classes whose models make no error do not contribute
            wrong = ((values > 0) != (actual[:, None] == labels)).any(axis=0)
            own = max([1.0, *np.compress(wrong, dependence).tolist()])
            self.error_rate_, stderr = mean_and_error(ERROR_RATE)
            self.coupling_ = decisions.coupling()
        else:
            own, stderr = largest if self.error_rate_ else 1.0, self.error_rate_stderr_ / largest
        found = proportion(self.error_rate_, stderr, sample.effective_units, own)
        self.error_rate_stderr_, self.error_rate_interval_ = found.stderr, found[1:]
        if not decisions.several and self.test_loss_ == ERROR_RATE and self.class_weight is None:
            self.best_risk_stderr_ = self.error_rate_stderr_
        estimate = self.error_rate_, self.error_rate_stderr_
        self.scores_ = {ERROR_RATE: Score(*estimate, decisions.constant(ERROR_RATE))}
        names = fitted[0].loss_.test_loss, fitted[0].test_loss_
        present = np.count_nonzero(decisions.shares)
        for name in dict.fromkeys((*names, *OF_CLASSES)):
            if name in self.scores_ or (name not in CRITERIA and name not in OF_CLASSES):
                continue
            if not decisions.several and name == self.test_loss_:
                estimate = self.best_risk_, self.best_risk_stderr_
                self.scores_[name] = Score(*estimate, self.constant_risk_)
            elif name in CRITERIA or present > 1:
                self.scores_[name] = score(name)
        wrong = np.not_equal(to_numpy(self.predict(X)), to_numpy(self.classes_)[codes])
        self.train_error_rate_ = float(np.average(wrong, weights=_counts(codes, sample_weight)))

    def _raise_risk(self, difference: float, stderr: float) -> None:
        super()._raise_risk(difference, stderr)
        if (score := getattr(self, "scores_", {}).get(self.test_loss_)) is not None:
            value, error = score.value + difference, max(score.stderr, stderr)
            self.scores_[self.test_loss_] = score._replace(value=value, stderr=error)

    def _check_parameters(self) -> None:
        if isinstance(self.test_loss, str):
            names = [name for name, kind in CRITERIA.items() if kind.margin]
            check_choice("test_loss", self.test_loss, names)
        elif not getattr(self.test_loss, "margin", True):
            raise ValueError(f"test_loss={self.test_loss!r} is a loss for regression")
        super()._check_parameters()

    def _loss(self, spread: float = 1.0) -> Loss:
        loss: Any = super()._loss(spread)  # type: ignore[safe-super]
        if loss.class_weight is not None:
            raise ValueError(
                f"loss={loss!r} has class weights; pass class_weight to {type(self).__name__} "
                "instead, with the labels in y"
            )
        # during a fit, weights are those of the labels -1 and 1
        weight = self.class_weight
        weighted: Loss = loss if weight is None else replace(loss, class_weight=weight)
        return weighted

    def _model(self, coef: Array, intercept: Any) -> dict[str, Any]:
        # the intercept has the precision of X, since labels have none
        return {"coef_": coef[None, :], "intercept_": like(intercept, coef)[None]}

    def _label(self, k: int) -> str:
        return str(self.classes_[k])

    def _error_rate(self) -> list[tuple[str, str]]:
        known = hasattr(self, "error_rate_")
        return [("Error Rate", with_error(self.error_rate_, self.error_rate_stderr_))] * known

    @of_features
    def decision_function(self, X: Any) -> Array:
        """Return decision values: unnormalised signed distances from the decision boundary.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, positive values predict ``classes_[1]``; for the logistic loss they are
            its log-odds. With array API dispatch, an array of the same library as X.
        """
        return self._decision(X, "decision_function")

    def _decision(self, X: Any, method: str) -> Array:
        decision = self._linear(X, method)
        return decision[:, 0] if decision.shape[1] == 1 else decision

    @of_features
    def predict(self, X: Any) -> Array:
        """Predict classes.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels from `classes_`.
        """
        decision = self._decision(X, "predict")
        xp, several = namespace(decision), decision.ndim == 2
        which = xp.argmax(decision, axis=1) if several else xp.astype(decision > 0, xp.int64)
        if is_foreign(self.classes_):
            return xp.take(self.classes_, which, axis=0)
        return np.asarray(self.classes_[to_numpy(which)])

    @property
    def _coupling(self) -> tuple[float, float]:
        return getattr(self, "coupling_", (0.0, 1.0))

    def _check_logistic(self) -> bool:
        """Refuse losses whose decision values are not log-odds."""
        if isinstance(super()._loss(), Logistic):  # type: ignore[safe-super]
            return True
        raise AttributeError(
            f"{type(self).__name__} predicts probabilities only with the logistic loss; use "
            "decision_function, or sklearn.calibration.CalibratedClassifierCV"
        )

    @available_if(_check_logistic)  # type: ignore[untyped-decorator]
    @of_features
    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities.

        With more than two classes, the one-vs-rest models are coupled: ``coupling_``, estimated
        from out-of-fold decisions, are the coefficients of log-odds and of one-vs-rest
        log-probabilities in the logarithms of the probabilities, which are normalised to sum to
        one. Without out-of-fold decisions (``method=None``), one-vs-rest probabilities are
        normalised.

        Early stopping and a large ``alpha`` shrink probabilities towards the class frequencies.
        With class weights, probabilities refer to a population with accordingly weighted classes.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        return class_probabilities(self._decision(X, "predict_proba"), self._coupling)

    @available_if(_check_logistic)  # type: ignore[untyped-decorator]
    @of_features
    def predict_log_proba(self, X: Any) -> Array:
        """Return logarithms of class probabilities.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of `predict_proba`.
        """
        return log_class_probabilities(self._decision(X, "predict_log_proba"), self._coupling)

    def _score(self, y: Any, predictions: np.ndarray, sample_weight: Any) -> float:
        return float(accuracy_score(_on_host("y", y), predictions, sample_weight=sample_weight))


def _labels_beside(classes: np.ndarray, coef: Array) -> Array:
    """Return labels as an array on the device of the coefficients, unless they are strings."""
    if classes.dtype.kind not in "iufb" or not is_foreign(coef):
        return classes
    wide = classes.dtype.kind == "u" and classes.dtype.itemsize > 1  # torch cannot index these
    return beside(classes.astype(np.int64) if wide else classes, coef)


def _counts(codes: np.ndarray, sample_weight: Any) -> np.ndarray:
    """Return the weights of the rows relative to the largest, or 1 if another check raises."""
    if sample_weight is not None:
        weights = np.asarray(_on_host("sample_weight", sample_weight))
        usable = weights.shape == codes.shape and weights.dtype.kind in "iufb"
        if usable and np.isfinite(weights).all() and (weights > 0).any():
            return np.asarray(np.maximum(weights, 0) / weights.max())
    return np.ones(len(codes))


def _check_counts(classes: np.ndarray, codes: np.ndarray, sample_weight: Any, name: str) -> None:
    """Raise an error for classes with fewer than two rows of positive weight."""
    weighted = "" if sample_weight is None else " with a positive sample_weight"
    counts = np.bincount(codes, minlength=len(classes))
    if counts.min() < 2:
        raise ValueError(
            f"{name} needs at least 2 rows of each class, but class "
            f"{classes.tolist()[counts.argmin()]!r} has {counts.min()}{weighted}; drop it, or "
            "merge it with another class"
        )


def _against_the_rest(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, counts: np.ndarray, k: int
) -> dict[int, float] | str | None:
    """Return the weights of one class (1) and of the rest (0), whose weights are averaged."""
    if class_weight is None or isinstance(class_weight, str):
        return class_weight
    weights = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
    rest = codes != k
    return {0: float(np.average(weights[codes[rest]], weights=counts[rest])), 1: float(weights[k])}


@documented(
    like=PathRegressor,
    without=("intervals_", "left_out_prediction_", "median_error_", "transform_target_"),
)
@dataclass(eq=False, repr=False)
class PathClassifier(Classifier, GeneralEstimator):
    r"""Penalised linear classification with selection of alpha and iteration by estimated risk.

    The algorithm is run for all values of ``alpha`` together, and the out-of-sample risk of every
    iterate is estimated from these runs; see `PathRegressor`. The objective is

    .. math:: \frac1n \sum_i \ell(y_i (x_i^\top b + c)) + \alpha\, \mathrm{pen}(b),

    where :math:`y_i` is 1 for rows of the second class and -1 for those of the first, and
    :math:`\ell(m)` is :math:`\log(1 + e^{-m})` for the logistic loss, :math:`\max(1 - m, 0)` for
    the hinge loss and :math:`\max(1 - m, 0)^2 / 2` for the squared hinge loss. More than two
    classes are fitted one-vs-rest.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        "logistic", "hinge" or "squared_hinge"; or a loss object such as ``sp.Logistic()``.
    penalty : str or callable, default="lasso"
        "lasso", "ridge", "elastic_net", "mcp", "scad" or "none"; or a function of ``lam``.
    class_weight : dict or "balanced", default=None
        Weights of the classes in the fit and in the estimated risk; 1 for a class that is not in
        the dict. "balanced" is inversely proportional to the class frequencies. In a one-vs-rest
        fit, the weight of the rest is the mean of the weights of its classes.
    alpha : "auto", float or array-like, default="auto"
        Regularisation strength, or several to select from; see `PathRegressor`. For ridge and lasso
        with ``standardize=False``, the ``C`` of scikit-learn's `LogisticRegression`, and of
        `LinearSVC` with the hinge loss, is ``1 / (n * alpha)``. For `LinearSVC` with the squared
        hinge loss, defined there without the factor 1/2, ``C`` is ``1 / (2 * n * alpha)``.
        `LinearSVC` also penalises the intercept.
    test_loss : None, str, Loss or callable, default=None
        The scoring loss: "zero_one" (the misclassification rate), "log", "hinge", "squared_hinge"
        or "brier". None uses the one that matches the training loss; its estimates vary less than
        those of the misclassification rate.
    cv : int, splitter or iterable, default=None
        How rows are held out, as for `PathRegressor`; a number of folds is stratified by class.

    Attributes
    ----------
    levels_ : tuple of LevelRisk
        What was tried, with estimated risks and their differences from the smallest one: only if X
        came from a `TableEncoder` with ``curves="auto"`` or ``products="auto"``.
    terms_ : Terms
        The columns of X that are features, and the products that are, in that case. `coef_` has one
        entry for each of these.
    classes_ : ndarray of shape (n_classes,)
        The labels, in increasing order.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients of the selected model; with more than two classes, one row for each.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercept of the selected model.
    estimators_ : list
        With more than two classes, the one-vs-rest classifier of each class. `alpha_`,
        `best_iter_`, `best_index_`, `n_iter_` and the risks then have one entry per class, and
        attributes that are not on this list are those of the `estimators_`.
    error_rate_, error_rate_stderr_ : float
        Estimated misclassification rate on new data, and its standard error, from out-of-fold
        predictions. If this takes no longer than tuning, ``alpha`` and iteration are also selected
        without the held-out rows (see `steinpath.Tuning`). This and the following are not available
        if no risk is estimated.
    error_rate_interval_ : tuple of float
        Ends of a 95% confidence interval of the misclassification rate: the Wilson interval, with
        the number of rows reduced where they depend on each other. If no row is misclassified, its
        upper end is about 4 / n.
    train_error_rate_ : float
        Misclassification rate on the training rows.
    scores_ : dict of str to Score
        Scores on new data: the misclassification rate ("zero_one"), the scoring loss that matches
        the training loss, that of the selection, "balanced_error" (the mean of the
        misclassification rates of the classes) and "auc" (the area under the ROC curve; with more
        than two classes, the mean over classes against the rest). A score has a ``value``, its
        ``stderr``, and the value ``constant`` of the best prediction without features. With more
        than two classes, "log" is that of ``predict_proba``, where `coupling_` was estimated
        without the row, and others are means over the `estimators_`.
    coupling_ : tuple of float
        With more than two classes, how probabilities follow from decision values; see
        ``predict_proba``.
    confusion_ : ndarray of shape (n_classes, n_classes)
        Confusion matrix of the out-of-fold predictions; rows are actual classes.
    left_out_decision_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Out-of-fold decision values, for ROC and calibration curves. NaN for rows that were not held
        out.

    See Also
    --------
    PathRegressor : Regression.
    LogisticLasso : Logistic regression with the lasso penalty.
    steinpath.tune : The same search as a function, on the scale of ``lam``.

    Notes
    -----
    Arrays of libraries other than NumPy, such as torch tensors, are supported as in
    `PathRegressor`. `classes_` and predicted labels are then arrays of the same library if the
    labels are numbers, and NumPy arrays if they are strings.

    Examples
    --------
    >>> import numpy as np
    >>> import steinpath as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 60))
    >>> y = np.where(X[:, 0] - X[:, 1] + rng.logistic(size=300) > 0, "yes", "no")
    >>> model = sp.PathClassifier(loss="logistic", penalty="lasso", random_state=0).fit(X, y)
    >>> model.predict_proba(X[:5]).shape
    (5, 2)
    >>> bool(0.2 < model.error_rate_ < 0.45)
    True
    """

    loss: str | Loss = "logistic"
    penalty: str | PenaltyOf = "lasso"

    margin = True


_named = partial(
    documented,
    like=PathClassifier,
    example="""
    >>> import numpy as np
    >>> import steinpath as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 20))
    >>> y = np.where(X[:, 0] - X[:, 1] + rng.logistic(size=300) > 0, "yes", "no")
    >>> model = sp.{name}(n_alphas=10, random_state=0).fit(X, y)
    >>> model.predict(X[:5]).shape
    (5,)
    """,
)


@_named(Logistic, Lasso)
class LogisticLasso(Classifier, NamedEstimator):
    """Logistic regression with the lasso penalty."""


@_named(Logistic, Ridge)
class LogisticRidge(Classifier, NamedEstimator):
    """Logistic regression with the ridge penalty."""


@_named(Logistic, ElasticNet)
@dataclass(eq=False, repr=False, kw_only=True)
class LogisticElasticNet(Classifier, NamedEstimator):
    """Logistic regression with the elastic net penalty."""

    l1_ratio: Any = 0.5


@_named(Hinge, Lasso)
class HingeLasso(Classifier, NamedEstimator):
    """Linear support vector machine with the lasso penalty."""


@_named(Hinge, Ridge)
class HingeRidge(Classifier, NamedEstimator):
    """Linear support vector machine, with the ridge penalty."""
