"""
Diabetes: a fit with an estimate of its test error
==================================================

442 patients, ten measurements, and their squares and products: 65 features. The estimators fit a
grid of penalties and select the penalty and the iteration by estimated risk. A quarter of the
patients is held out only to verify the estimate.
"""

from sklearn.datasets import load_diabetes
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import steinpath as sp

X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)

# %%
# Three models, each with its own estimate of the mean absolute error on new patients.

for regressor in (sp.LADLasso(), sp.LADRidge(), sp.SqrtLasso(test_loss="absolute")):
    regressor.set_params(random_state=0)
    model = make_pipeline(PolynomialFeatures(2, include_bias=False), regressor)
    model.fit(X_train, y_train)
    held_out = mean_absolute_error(y_test, model.predict(X_test))
    print(
        f"{type(regressor).__name__:10s} iteration {regressor.best_iter_:3d}, "
        f"{(regressor.coef_ != 0).sum():2d} features: estimated "
        f"{regressor.best_risk_:.1f} ± {regressor.best_risk_stderr_:.1f}, held out {held_out:.1f}"
    )

# %%
# The risk of every iterate of the last model, at the selected penalty.

display = sp.RiskPathDisplay.from_estimator(regressor)

# %%
# The risk for all penalties.

display = sp.RiskPathDisplay.from_estimator(regressor, kind="surface")
