"""Know the test error of every iterate of an optimisation algorithm, without a test set.

>>> import numpy as np
>>> import steinpath as sp
>>> rng = np.random.default_rng(0)
>>> X = rng.standard_normal((200, 100))
>>> y = X[:, :5].sum(axis=1) + rng.standard_t(2, size=200)
>>> path = sp.run(X, y, sp.LAD(), sp.Lasso(0.5), n_iter=40)
>>> risk = sp.estimate_risk(path)
>>> beta = path.coef[risk.best_iter]
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steinpath._public import *  # noqa: F403
    from steinpath._public import __all__ as __all__
    from steinpath._public import __version__ as __version__


def __getattr__(name: str) -> Any:
    # Slow imports are deferred to the first use of a name, so that Ctrl-C ends the command (part of
    # this package) with a one-line message even while it starts.
    if not name.startswith("__") or name in ("__all__", "__version__"):
        public = _names()
        if name in (*public.__all__, "__all__", "__version__"):
            globals()[name] = getattr(public, name)
        if name in globals():  # also a subpackage, which is imported by now
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*_names().__all__, "__version__"]


def _names() -> Any:
    """Return the module of public names; its import leaves the state of `random` as it was."""
    from random import getstate, setstate

    state = getstate()  # scikit-learn imports rich, which draws a number
    try:
        import steinpath._public as public
    finally:
        setstate(state)
    return public
