"""A claim that some seeds suggested is judged on others."""

from __future__ import annotations

import pytest

from simulator.studies.online import SIZES, SUGGESTED, UNSEEN_SEED, OnlineStudy, plan
from simulator.studies.plan import cells


@pytest.mark.parametrize("study", [*SIZES.values(), OnlineStudy(first_seed=99), OnlineStudy(first_seed=3)])
def test_suggested_claims_are_never_registered_with_the_seeds_that_suggested_them(study: OnlineStudy) -> None:
    registered = plan(study)
    seeds = {cell.seed for cell in cells(registered)}
    if any(claim in registered.hypotheses for claim in SUGGESTED):
        assert min(seeds) >= UNSEEN_SEED
    else:
        assert study.first_seed < UNSEEN_SEED


def test_confirm_is_small_but_for_its_seeds_and_registers_both_claims() -> None:
    confirm, small = SIZES["confirm"], SIZES["small"]
    changed = {"seeds": confirm.seeds, "first_seed": confirm.first_seed}
    assert confirm == small.model_copy(update=changed)
    judged = [claim for claim in plan(confirm).hypotheses if claim in SUGGESTED]
    assert [claim.worse_arm for claim in judged] == ["sao-running-mean-128-fast", "reinforce-pp-fast"]
    for claim in judged:
        assert (claim.better_arm, claim.metric, claim.direction) == ("sao-fast", "final_score", "higher")
        assert "seeds 0 to 2" in claim.source
    without = plan(confirm.model_copy(update={"estimators": ("sao", "reinforce_pp")}))
    assert [claim.id for claim in without.hypotheses if claim in SUGGESTED] == ["O6"]
