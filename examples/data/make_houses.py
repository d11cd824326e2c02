"""Make houses.csv: 400 sales that never were, with columns of every kind and some wild prices."""

from pathlib import Path

import numpy as np

rng, n = np.random.default_rng(2026), 400
area = rng.lognormal(4.6, 0.35, n)
rooms = np.clip(np.round(area / 28 + rng.normal(0, 0.8, n)), 1, 9)
year = rng.integers(1890, 2024, n)
town = rng.choice(["Aarau", "Genève", "Lugano", "Zürich"], n, p=[0.35, 0.25, 0.15, 0.25])
garden = rng.random(n) < 0.4
distance = rng.exponential(6, n)
sold = np.datetime64("2021-01-01") + rng.integers(0, 1500, n)
days = (sold - np.datetime64("2021-01-01")).astype(int)
premium = {"Aarau": 0, "Genève": 210, "Lugano": 60, "Zürich": 260}
price = 120 + 5.2 * area + 0.9 * (year - 1950) + 45 * garden - 6 * distance + 0.05 * days
price += np.array([premium[name] for name in town]) + 40 * rng.standard_t(2, n)
lines = ["area m²,rooms,built,town,garden,km to station,sold,price"]
for k in range(n):
    lines.append(
        f"{area[k]:.0f},{rooms[k]:.0f},{year[k]},{town[k]},{'yes' if garden[k] else 'no'},"
        f"{distance[k]:.1f},{sold[k]},{price[k]:.0f}"
    )
file = Path(__file__).with_name("houses.csv")
file.write_text("\n".join(lines) + "\n", encoding="utf-8")
