"""Make loans.csv: 500 loans that never were, of which a quarter was not paid back."""

from pathlib import Path

import numpy as np

rng, n = np.random.default_rng(22), 500
age = rng.integers(20, 70, n)
income = rng.lognormal(4.1, 0.4, n)
amount = rng.lognormal(2.6, 0.6, n)
years = rng.integers(1, 9, n)
purpose = rng.choice(["car", "home", "studies", "other"], n, p=[0.4, 0.25, 0.15, 0.2])
late = rng.poisson(0.8, n)
score = -2.2 + 0.9 * late + 2.2 * amount / income + 0.18 * years - 0.02 * (age - 45)
score += np.select([purpose == "other", purpose == "home"], [0.7, -0.9], 0.0)
score += 0.5 * rng.logistic(size=n) - 0.012 * (income - 60)
repaid = np.where(score > 1.1, "no", "yes")
lines = ["age,income,amount,years,purpose,late payments,repaid"]
for k in range(n):
    lines.append(
        f"{age[k]},{income[k]:.1f},{amount[k]:.1f},{years[k]},{purpose[k]},{late[k]},{repaid[k]}"
    )
file = Path(__file__).with_name("loans.csv")
file.write_text("\n".join(lines) + "\n", encoding="utf-8")
