"""A plan in 80 columns, and as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import textwrap
from collections.abc import Iterable
from typing import Any, Final

from simulator.planner.compare import Comparison
from simulator.planner.layout import layout
from simulator.planner.measure import Estimate, Numbers
from simulator.planner.plan import Outcome, Plan, regime_of
from simulator.planner.regime import SENTENCES
from simulator.validation.row import Row

WIDTH: Final = 80
_HEADER: Final = (
    "    GPUs that      in  bound, rollouts trained  lag, updates    waits, %    in",
    "  decode train flight batches          an hour       mean p99  train slots vain",
)


def plan_text(plan: Plan) -> str:
    """The regime, the frontier, the settings, and what they rest on."""
    config, best = plan.config, plan.best
    model = config.model
    lines = [
        f"{config.machines:,} {config.accelerator}, {_billions(model.parameters_total)} parameters"
        f" ({_billions(model.parameters_active)} active), engines of {_gpus(config.gpus_engine)}",
        "",
        *_wrapped(SENTENCES[plan.regime]),
        "",
        *_HEADER,
        *(_row(plan.outcomes[i], mark="*" if i == plan.knee else " ") for i in plan.frontier),
        *([_row(other, mark="-")] if (other := _off_frontier(plan)) is not None else []),
        "",
        *_wrapped(
            "* the freshest setting after which no older data gains 5 %."
            + (" - the fastest split, which others beat." if other is not None else "")
            + f" {len(plan.outcomes) - len(plan.frontier)} settings are beaten in both, and"
            f" {len(plan.impossible)} cannot be."
        ),
        *(f"  {reason}" for reason in _reasons(plan)),
        "",
        *_settings(plan, best),
    ]
    if best.setting.together and (split := fastest_split(plan)) is not None:
        lines += ["", *_wrapped(f"The fastest split would be {regime_of(split)}."), *_settings(plan, split)]
    return "\n".join([*lines, "", *_foundations(plan)])


def comparison_text(found: Comparison) -> str:
    """What the barrier costs, in two tables."""
    lines = [
        f"Group against single: {found.machines:,} GPUs, {found.in_flight:,} in flight, groups of"
        f" {found.group_size}, nothing",
        "bounds the run-ahead but a queue of one batch that drops its oldest.",
    ]
    for title, arms in (("Each at its own fastest split:", found.fastest), ("All at one:", found.same_split)):
        lines += [
            "",
            title,
            "                   GPUs that  lag, updates    waits, %    in"
            f"  {f'{found.updates:,} updates':>18}",
            "                decode train    mean  p99  train slots vain     hours GPU-hours",
        ]
        for arm in arms:
            n = arm.numbers
            gpus = arm.setting.rollout_gpus
            lines.append(
                f"{arm.name:15} {gpus:6} {found.machines - gpus:5} {n['mean_lag_updates'].mean:7.1f}"
                f" {n['p99_lag_updates'].mean:4.0f}  {_percents(n)}  {arm.hours:8.2f} {arm.gpu_hours:9,.0f}"
            )
    lines += [
        "",
        *_wrapped(
            f"The barrier alone multiplies the mean lag by {found.lag_multiplier:.2f} (the longest of"
            f" {found.group_size} is {found.tail_ratio:.2f} mean answers). The critic is SAO's: as large as"
            " the policy, its updates and values on the trainer. What an update is worth is not compared"
            " here."
        ),
    ]
    return "\n".join(lines)


def published_text(rows: Iterable[Row]) -> str:
    """Expected beside computed."""
    lines = ["   measured   roofline  ratio"]
    for row in rows:
        verdict = "holds" if row.holds else "FAILS"
        lines.append(
            f"{row.expected:11.3f}{row.simulated:11.3f}{row.simulated / row.expected:7.2f}  {verdict},"
            f" {row.wanted}"
        )
        lines += [f"    {part}" for part in textwrap.wrap(f"{row.about}; {row.source}", WIDTH - 4)]
    return "\n".join(lines)


def to_json(name: str, plan: Plan | None, found: Comparison | None) -> str:
    """Everything, as one object; what is not a number is null."""
    told: dict[str, Any] = {"scenario": name}
    if plan is not None:
        told |= {
            "config": plan.config.model_dump(mode="json"),
            "regime": plan.regime,
            "sentence": SENTENCES[plan.regime],
            "knee": plan.knee,
            "frontier": list(plan.frontier),
            "settings": [dataclasses.asdict(outcome) for outcome in plan.outcomes],
            "impossible": [dataclasses.asdict(s) | {"why": why} for s, why in plan.impossible],
            "parts": plan.parts,
            "whole": None if plan.whole is None else _numbers(plan.whole),
        }
    if found is not None:
        told["compare"] = dataclasses.asdict(found) | {"lag_multiplier": found.lag_multiplier}
    return json.dumps(_finite(told), indent=2)


def fastest_split(plan: Plan) -> Outcome | None:
    """The fastest of the settings that do not take turns."""
    split = [outcome for outcome in plan.outcomes if not outcome.setting.together]
    return max(split, key=lambda o: o.numbers["rollouts_per_hour"].mean, default=None)


def _off_frontier(plan: Plan) -> Outcome | None:
    """The fastest split, where it is not on the frontier."""
    split = fastest_split(plan)
    return None if split in [plan.outcomes[i] for i in plan.frontier] else split


def _row(outcome: Outcome, *, mark: str) -> str:
    n, setting = outcome.numbers, outcome.setting
    train = "turns" if setting.together else str(outcome.trainer_gpus)
    bound = "sync" if setting.together else str(setting.bound_batches)
    return (
        f"{mark} {setting.rollout_gpus:6} {train:>5} {setting.in_flight:6} {bound:>7}"
        f" {_with_interval(n['rollouts_per_hour'], 0):>16} {_with_interval(n['mean_lag_updates'], 1):>10}"
        f" {n['p99_lag_updates'].mean:3.0f}  {_percents(n)}"
    )


def _percents(n: Numbers) -> str:
    return " ".join(
        f"{'-' if math.isnan(n[name].mean) else format(100 * n[name].mean, '.0f'):>{width}}"
        for name, width in (("trainer_idle", 5), ("slots_idle", 5), ("dropped", 4))
    )


def _with_interval(of: Estimate, digits: int) -> str:
    if math.isnan(of.half_width):
        return f"{of.mean:,.{digits}f}"
    return f"{of.mean:,.{digits}f} ±{of.half_width:,.{digits}f}"


def _settings(plan: Plan, outcome: Outcome) -> list[str]:
    config, setting = plan.config, outcome.setting
    engines = setting.rollout_gpus // config.gpus_engine
    if setting.together:
        return _wrapped(
            f"Settings: synchronous; all GPUs are {engines:,} engines with max_num_seqs"
            f" {outcome.slots_an_engine:,}, generate {config.batch_rollouts:,} rollouts, then train on them."
        )
    words = "; ".join(f"{key} {value}" for key, value in outcome.system.items())
    return _wrapped(
        f"Settings, in {config.system}'s words: {words}. Engines: {engines:,} of {_gpus(config.gpus_engine)},"
        f" max_num_seqs {outcome.slots_an_engine:,}; trainer: {outcome.trainer_gpus:,} GPUs, batches of"
        f" {config.batch_rollouts:,} rollouts in {config.updates_per_batch} updates."
    )


def _foundations(plan: Plan) -> list[str]:
    config, best = plan.config, plan.best
    made = layout(config, best.setting, seed=config.seed).pipeline
    engine = made.engine
    assert engine.kind == "load_dependent"
    said = (
        f"Roofline, within a factor of two of published runs (--published): a decode step takes"
        f" {1e3 * engine.step_fixed_s:.2f} ms, {1e6 * engine.step_s_per_rollout:.1f} us a rollout and"
        f" {1e9 * engine.step_s_per_kv_token:.2f} ns a token held; an engine holds"
        f" {engine.kv_capacity_tokens:,} tokens; training takes {1e6 * made.policy_update_s_per_token:.2f} us"
        f" a token, a push {made.push_s:.2f} s. Intervals: 95 %, {config.seeds} seeds."
    )
    if plan.parts > 1:
        said += f" Splits were simulated on 1/{plan.parts} of the machine"
        if plan.whole is not None:
            whole, part = (n["rollouts_per_hour"].mean for n in (plan.whole, best.numbers))
            lag, lag_part = (n["mean_lag_updates"].mean for n in (plan.whole, best.numbers))
            said += (
                f"; the whole of * makes {whole:,.0f} rollouts an hour ({whole / part - 1:+.1%}) with a mean"
                f" lag of {lag:.1f} updates ({lag_part:.1f})"
            )
        said += "."
    return _wrapped(said)


def _reasons(plan: Plan) -> list[str]:
    told: dict[str, int] = {}
    for setting, why in plan.impossible:
        told.setdefault(f"{setting.rollout_gpus} decode, {setting.in_flight:,} in flight: {why}", 1)
    shown = list(told)[:3]
    wrapped = [line for reason in shown for line in textwrap.wrap(reason, WIDTH - 2)]
    return [*wrapped, f"and {len(told) - 3} more"] if len(told) > 3 else wrapped


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH)


def _billions(parameters: float) -> str:
    return f"{parameters / 1e9:.4g}B"


def _numbers(numbers: Numbers) -> dict[str, dict[str, float]]:
    return {name: dataclasses.asdict(number) for name, number in numbers.items()}


def _gpus(count: int) -> str:
    return f"{count:,} GPU" + ("s" if count > 1 else "")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
