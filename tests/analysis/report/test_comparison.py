import numpy as np

from analysis.measures.collapse import Criteria
from analysis.report.comparison import compared
from analysis.study import summarise
from tests.analysis.factories import recorded, run_of

CRITERIA = Criteria(target=0.7, chance=0.1)


def page(arms: int) -> str:
    runs = [
        run_of(recorded(np.linspace(0.1, 0.5 + 0.1 * arm, 12) + 0.01 * seed), arm=f"<{arm}>", seed=seed)
        for arm in range(arms)
        for seed in range(3)
    ]
    return "".join(compared(summarise(runs, CRITERIA)))


def test_two_arms_are_compared_every_way():
    shown = page(2)
    assert "row beats column" in shown
    assert "1.00 [0." in shown  # full separation of three seeds each is not certainty
    assert "short of target" in shown
    assert "How many runs get how far?" in shown
    assert "<0>" not in shown  # names are text


def test_pairs_are_shown_of_few_arms_only_and_one_arm_is_nothing_to_compare():
    assert "row beats column" not in page(6)
    assert "IQM" in page(6)
    assert page(1) == page(9) == ""
