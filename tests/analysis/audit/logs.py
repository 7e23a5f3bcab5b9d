"""Series of a run that learns well, and the files in which five systems would log them."""

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from analysis.systems.plain import PLAIN
from analysis.systems.prime_rl import PRIME_RL
from analysis.systems.skyrl import SKYRL
from analysis.systems.system import System
from analysis.systems.trl import TRL
from analysis.systems.verl import VERL

Series = dict[str, np.ndarray]


def healthy(seed: int, updates: int = 120) -> Series:
    """Lag fills up and stays, the reward rises, the entropy sinks a little; noise has memory."""
    rng = np.random.default_rng(seed)
    time = np.arange(updates)

    def noise(scale: float) -> np.ndarray:
        steps, found = rng.normal(scale=scale, size=updates), np.zeros(updates)
        for i in range(1, updates):
            found[i] = 0.5 * found[i - 1] + steps[i]
        return found

    lag = 3.0 * (1 - np.exp(-time / 5)) + noise(0.15)
    return {
        "update": time + 1.0,
        "lag_mean": np.maximum(lag, 0.0),
        "lag_max": np.maximum(np.ceil(lag + 1.5), 0.0),
        "kl_k1": 0.002 + noise(0.0003),
        "kl_k3": np.abs(0.002 + noise(0.0003)),
        "ess": np.clip(0.93 + noise(0.01), 0.0, 1.0),
        "logprob_gap_mean": np.abs(0.015 + noise(0.001)),
        "prob_correlation": np.clip(0.999 + noise(0.0002), 0.0, 1.0),
        "clip_fraction": np.abs(0.01 + noise(0.003)),
        "masked_fraction": np.abs(0.02 + noise(0.004)),
        "entropy": 1.0 - 0.3 * time / updates + noise(0.02),
        "reward_mean": 0.2 + 0.5 * (1 - np.exp(-time / 40)) + noise(0.02),
        "zero_variance_share": np.clip(0.3 + noise(0.05), 0.0, 1.0),
        "response_length_mean": 800 + 3 * time + noise(30),
        "truncated_share": np.clip(0.03 + noise(0.005), 0.0, 1.0),
        "grad_norm": 0.5 * np.exp(noise(0.3)),
        "loss": noise(0.01),
        "step_s": 60 + noise(2),
        "trainer_wait_s": np.abs(5 + noise(1)),
    }


def write_verl(folder: Path, series: Mapping[str, np.ndarray]) -> Path:
    path = folder / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": at, "data": row}) + "\n" for at, row in rows(VERL, series)))
    return path


def write_prime_rl(folder: Path, series: Mapping[str, np.ndarray]) -> Path:
    """As its monitor writes them: several records a step, each with a part of the metrics."""
    path = folder / "metrics.jsonl"
    with path.open("w") as stream:
        for at, row in rows(PRIME_RL, series):
            for name, value in row.items():
                print(json.dumps({"step": at, name: value}), file=stream)
    return path


def write_skyrl(folder: Path, series: Mapping[str, np.ndarray]) -> Path:
    path = folder / "export.csv"
    return write_csv(path, [{"trainer/global_step": at, **row} for at, row in rows(SKYRL, series)])


def write_trl(folder: Path, series: Mapping[str, np.ndarray]) -> Path:
    path = folder / "trainer_state.json"
    history = [{"step": at, "epoch": 0.1, **row} for at, row in rows(TRL, series)]
    path.write_text(json.dumps({"global_step": len(history), "log_history": history}, indent=2))
    return path


def write_plain(folder: Path, series: Mapping[str, np.ndarray]) -> Path:
    return write_csv(folder / "log.csv", [{"update": at, **row} for at, row in rows(PLAIN, series)])


FORMATS: dict[str, Callable[[Path, Mapping[str, np.ndarray]], Path]] = {
    "verl": write_verl,
    "prime-rl": write_prime_rl,
    "skyrl": write_skyrl,
    "trl": write_trl,
    "plain": write_plain,
}


def rows(system: System, series: Mapping[str, np.ndarray]) -> list[tuple[float, dict[str, float]]]:
    """Each update with what a system would log of it, under the first of its names."""
    names: dict[str, str] = {}
    for theirs, ours in system.metrics.items():
        names.setdefault(ours, theirs)
    if system is PLAIN:
        names = {ours: ours for ours in series}
    known = {ours: values for ours, values in series.items() if ours in names and ours != "update"}
    return [
        (float(at), {names[ours]: float(values[i]) for ours, values in known.items()})
        for i, at in enumerate(series["update"])
    ]


def write_csv(path: Path, records: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    return path


def write_jsonl(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path
