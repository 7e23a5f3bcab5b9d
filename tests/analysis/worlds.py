"""Outcomes of studies that never ran, whose laws are known."""

import math

import numpy as np
import pandas as pd

RATES = (1e-3, 2e-3, 4e-3, 8e-3, 16e-3)
LAGS = (8, 16, 32, 64, 128)


def grid(
    rng: np.random.Generator,
    *,
    seeds: int = 8,
    exponent: float = 1.0,
    sharpness: float = 5.0,
    total: float = 1.5,
    scatter: float = 0.08,
    budget: float = 1e9,
) -> pd.DataFrame:
    """Half of the seeds collapse where rate = .18 lag^-exponent, at the update lag + total / rate."""
    rows = []
    for rate in RATES:
        for lag in LAGS:
            odds = sharpness * (math.log(rate) + exponent * math.log(lag) - math.log(0.18))
            for seed in range(seeds):
                breaks = rng.random() < 1 / (1 + math.exp(-odds))
                update = lag + total / rate * math.exp(scatter * rng.normal())
                collapsed = breaks and update < budget
                rows.append(
                    {
                        "arm": f"{rate:g}-{lag}",
                        "seed": seed,
                        "learning_rate": rate,
                        "lag": lag,
                        "collapsed": collapsed,
                        "fate": "collapsed" if collapsed else "reached target",
                        "event_update": update if collapsed else budget,
                        "watched_until_update": budget,
                    }
                )
    return pd.DataFrame(rows)
