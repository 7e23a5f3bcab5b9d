import numpy as np
import pytest

from simulator.lab.traffic import Part, Traffic


def one(parts: list[Part], tokens: int) -> Traffic:
    ids = np.zeros(1, np.int64)
    return Traffic(
        version=9,
        index_in_batch=0,
        rollout_ids=ids,
        prompt_ids=ids,
        group_ids=ids,
        length_tokens=[tokens],
        parts=[parts],
    )


def test_versions_of_said_tokens_by_hand() -> None:
    # 10 simulated tokens: 0-3 by version 0, 4-8 by version 2, 9 by version 4; said ones sit at 0, 2, 5, 7
    rollout = one([Part(0, 0), Part(2, 4), Part(4, 9)], 10)
    assert rollout.versions(np.array([4]), 4).tolist() == [[0, 0, 2, 2]]
    # with as many said tokens as simulated ones, each is its own
    assert rollout.versions(np.array([10]), 10).tolist() == [[0] * 4 + [2] * 5 + [4]]


@pytest.mark.parametrize(("said", "tokens"), [(8, 1), (3, 7), (7, 3), (64, 5000), (1, 9)])
def test_a_said_token_stands_for_a_simulated_one_its_floor(said: int, tokens: int) -> None:
    parts = [Part(version, start) for version, start in enumerate(sorted({0, tokens // 3, tokens // 2}))]
    starts = [part.start_token for part in parts]
    wanted = [max(v for v, s in enumerate(starts) if s <= t * tokens // said) for t in range(said)]
    assert one(parts, tokens).versions(np.array([said]), said).tolist() == [wanted]


def test_what_lies_beyond_what_was_said_repeats_the_last_version() -> None:
    assert one([Part(0, 0), Part(6, 5)], 10).versions(np.array([2]), 5).tolist() == [[0, 6, 6, 6, 6]]


@pytest.mark.parametrize(("parts", "tokens"), [([], 3), ([Part(0, 1)], 3), ([Part(0, 0)], 0)])
def test_a_rollout_without_a_beginning_is_refused(parts: list[Part], tokens: int) -> None:
    with pytest.raises(ValueError, match="rollout 0 has"):
        one(parts, tokens)
