"""Which outcomes can a claim be about? Those of a run of one rollout in which everything was measured."""

from __future__ import annotations

from typing import Final

from analysis.measures.collapse import Criteria
from analysis.measures.outcomes import AVERAGED, SCORES, outcomes
from analysis.runs import from_log
from simulator.eventlog import Recorder

_HEADER: Final = ("arm", "seed", "clock", "fate")
"""Of a row of outcomes, what is no number and no event."""
EVENTS: Final = ("reached_target", "collapsed", "stalled")
"""True or false of a run: what an `event_share` counts."""
TIMES: Final = ("hours_to_target",)
"""In hours of a run's own clock, NaN where it did not happen: what a `time_to_target` compares."""


def outcome_names(criteria: Criteria) -> list[str]:
    """Names that `analysis.measures.outcomes` gives, by these criteria, to a run that learned."""
    recorder = Recorder()
    recorder.add_rollout(
        rollout_id=0, prompt_id=0, group_id=0, started_s=0.0, finished_s=1.0, enqueued_s=1.0, consumed_s=1.0,
        first_version=0, last_version=0, oldest_version=0, consumed_version=0, action_tokens=1,
        status="trained",
    )  # fmt: skip
    recorder.add_segment(rollout_id=0, version=0, start_token=0, tokens=1, start_s=0.0, end_s=1.0)
    recorder.add_update(
        dict.fromkeys((*SCORES, *AVERAGED, criteria.metric), 1.0),
        version=1, wait_start_s=0.0, train_start_s=1.0, train_end_s=2.0, published_s=2.0,
        rollouts=1, tokens=1,
    )  # fmt: skip
    recorder.add_interval(resource="trainer", state="busy", cause="policy_update", start_s=1.0, end_s=2.0)
    run = from_log(recorder.log(), arm="", seed=0, clock="simulated")
    return [name for name in outcomes(run, criteria) if name not in _HEADER]
