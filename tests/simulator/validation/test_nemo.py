"""What NeMo's rows rest on: the published mean, and a synchronous step that adds up."""

import pytest

from simulator.validation.nemo import CAP_TOKENS, MEAN_TOKENS, ON_POLICY_S, capped_law, nemo_one_off
from simulator.world.lengths import clipped_share, mean_tokens


def test_the_capped_law_has_the_published_mean():
    law = capped_law()
    assert mean_tokens(law) == pytest.approx(MEAN_TOKENS, rel=1e-3)
    uncapped = law.model_copy(update={"max_tokens": None})
    assert clipped_share(uncapped, CAP_TOKENS) == pytest.approx(0.41, abs=0.01)


@pytest.mark.slow
def test_the_synchronous_step_is_the_measured_one_and_one_off_is_slower():
    (row,) = nemo_one_off()
    assert row.expected == pytest.approx(ON_POLICY_S, rel=0.01)
    assert row.holds
