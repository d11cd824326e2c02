"""
Reliability and ROC curves from out-of-fold predictions
=======================================================

A classifier stores out-of-fold decision values for all rows, from models that were fitted and
selected without these rows (``left_out_decision_``). They can be passed to any scikit-learn metric
or display. This example uses a survey of married women about extramarital affairs (Fair, 1978). The
answers of 1500 women are fitted; the other 4866 serve for verification.
"""

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm
from scipy.special import expit
from sklearn.calibration import CalibrationDisplay
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.model_selection import train_test_split

import steinpath as sp

survey = sm.datasets.fair.load_pandas().data
answer = np.where(survey.pop("affairs") > 0, "yes", "no")
X, X_new, y, y_new = train_test_split(survey, answer, train_size=1500, random_state=0)
print(f"{np.mean(y == 'yes'):.0%} of {len(y)} answered yes")

# %%
# Two fits, with equal row weights and with balanced class weights.

models = {
    "plain": sp.LogisticLasso(random_state=0).fit(X, y),
    "balanced": sp.LogisticLasso(class_weight="balanced", random_state=0).fit(X, y),
}
for name, model in models.items():
    wrong = model.predict(X_new) != y_new
    print(
        f"{name}: expected error rate {model.error_rate_:.3f} ± {model.error_rate_stderr_:.3f}, "
        f"on the other women {np.mean(wrong):.3f}; false negative rate "
        f"{np.mean(wrong[y_new == 'yes']):.0%}"
    )

# %%
# The decision values of the logistic loss are log-odds of ``classes_[1]``, here "yes". Both fits
# rank the women in nearly the same order, so their ROC curves agree. Their probabilities differ:
# with balanced class weights they refer to a population in which half of the answers are yes.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.3), layout="constrained")
for (name, model), colour in zip(models.items(), ("#0072B2", "#E69F00"), strict=True):
    decision = model.left_out_decision_
    false, true, _ = roc_curve(y, decision, pos_label="yes")
    area = roc_auc_score(y == "yes", decision)
    left.plot(false, true, color=colour, label=f"{name} (AUC = {area:.3f})")
    CalibrationDisplay.from_predictions(
        y == "yes",
        expit(decision),
        n_bins=10,
        strategy="quantile",
        name=name,
        ax=right,
        color=colour,
    )
left.plot([0, 1], [0, 1], "k:", zorder=0)
left.set(title="ROC curves", xlabel="false positive rate", ylabel="true positive rate")
right.set(title="reliability", xlabel="predicted probability of yes", ylabel="fraction of yes")
left.legend(loc="lower right")
plt.show()

# %%
# The other women confirm this.

for name, model in models.items():
    predicted = model.predict_proba(X_new)[:, 1]
    print(f"{name}: {predicted.mean():.2f} predicted, {np.mean(y_new == 'yes'):.2f} observed")
