"""
From a data frame to a report
=============================

A table with numbers, a category, a yes-or-no column and a date: 400 house sales (simulated, with
some outlying prices). `TableEncoder` encodes the columns, `LADLasso` fits the model, and
`steinpath.report` writes an HTML page with the result.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

import steinpath as sp

# In your own script: pd.read_csv("houses.csv").
here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
houses = pd.read_csv(here / "data" / "houses.csv")
frame, price = houses.drop(columns="price"), houses["price"]
print(frame.head(3).to_string(index=False))

# %%
# The pipeline selects the penalty and the iteration, and estimates the error of the selected model
# on new sales.

model = make_pipeline(sp.TableEncoder(), sp.LADLasso(random_state=0)).fit(frame, price)
encoder, lad = model
print(f"expected absolute error {lad.best_risk_:.1f} ± {lad.best_risk_stderr_:.1f}")
print(f"error of a constant prediction {lad.constant_risk_:.1f}")
print(pd.Series(lad.coef_, encoder.get_feature_names_out()).round(2).to_string())

# %%
# Prediction intervals for all houses, in the order of their predicted prices. They contain about
# 90% of the prices; the outlying prices are outside.

lower, upper = lad.predict_interval(encoder.transform(frame), level=0.9).T
predicted = model.predict(frame)
print(f"{np.mean((lower <= price) & (price <= upper)):.0%} of the prices are in their intervals")

order, rank = np.argsort(predicted), np.arange(len(price))
fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.fill_between(rank, lower[order], upper[order], color="#0072B2", alpha=0.2, lw=0, label="90%")
ax.plot(rank, predicted[order], color="#0072B2", label="prediction")
ax.plot(rank, price.to_numpy()[order], ".", color="#333333", ms=4, label="price")
ax.set(xlabel="house, ordered by predicted price", ylabel="price")
ax.legend(frameon=False, loc="upper left")
plt.show()

# %%
# Confidence intervals for the coefficients. Those of the towns are differences from the most
# frequent town.

intervals = lad.coef_intervals(
    without=encoder.reference_features_, names=encoder.get_feature_names_out()
)
print(intervals.summary())

# %%
# The report is one page that needs no network: expected error, risk of every iteration,
# coefficients, columns and checks. The model file can be read with `steinpath.load_model`, or used
# by the command ``steinpath predict``.

with TemporaryDirectory() as folder:
    sp.report(model, Path(folder, "report.html"), target="price", intervals=True)
    sp.save_model(model, Path(folder, "model.json"), target="price")
    loaded = sp.load_model(Path(folder, "model.json"))
    for file in sorted(Path(folder).iterdir()):
        print(f"{file.name}: {file.stat().st_size // 1024} kB")
print("first predictions of the loaded model:", loaded.predict(frame.head(3)).round(1))
