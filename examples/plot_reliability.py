"""
Reliability and ROC curves from rows left out
=============================================

How good are predicted probabilities, and how well are the classes told apart? A classifier keeps
the decision values of all rows by models that were fitted and chosen without them
(``left_out_decision_``). Any curve of scikit-learn can be drawn from these. Here they are for a
survey among married women (Fair, 1978): has there been an affair? The answers of 1500 women are
fitted; the other 4866 only serve to check.
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
print(f"{np.mean(y == 'yes'):.0%} of {len(y)} say yes")

# %%
# Two fits: rows count alike, or classes do.

models = {
    "plain": sp.LogisticLasso(random_state=0).fit(X, y),
    "balanced": sp.LogisticLasso(class_weight="balanced", random_state=0).fit(X, y),
}
for name, model in models.items():
    wrong = model.predict(X_new) != y_new
    print(
        f"{name}: expected error rate {model.error_rate_:.3f} ± {model.error_rate_stderr_:.3f}, "
        f"on the other women {np.mean(wrong):.3f}; of those who say yes, "
        f"{np.mean(wrong[y_new == 'yes']):.0%} are missed"
    )

# %%
# The decision values of the logistic loss are log-odds of ``classes_[1]``, here "yes". Both fits
# order the women in nearly the same way, so that their ROC curves agree. Their probabilities do
# not: with class weights they are those of a population in which half of the answers are yes.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.3), layout="constrained")
for (name, model), colour in zip(models.items(), ("#0072B2", "#E69F00"), strict=True):
    decision = model.left_out_decision_
    false, true, _ = roc_curve(y, decision, pos_label="yes")
    area = roc_auc_score(y == "yes", decision)
    left.plot(false, true, color=colour, label=f"{name}, area {area:.3f}")
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
right.set(title="reliability", xlabel="predicted probability of yes", ylabel="share of yes")
left.legend(loc="lower right")
plt.show()

# %%
# The other women say the same.

for name, model in models.items():
    predicted = model.predict_proba(X_new)[:, 1]
    print(f"{name}: {predicted.mean():.2f} predicted, {np.mean(y_new == 'yes'):.2f} say yes")
