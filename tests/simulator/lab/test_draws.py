import numpy as np

from simulator.lab.draws import BLOCK, KeyedDraws


def draws(seed: int = 0, purpose: str = "sampling") -> KeyedDraws:
    return KeyedDraws(seed, purpose, lambda rng, n: rng.random((n, 3)))


def test_a_row_depends_on_its_id_alone() -> None:
    ids = np.array([BLOCK - 1, 5, BLOCK, 3 * BLOCK + 7])
    together = draws().rows(ids)
    one_by_one = [draws().rows(np.array([i]))[0] for i in ids]
    np.testing.assert_array_equal(together, np.stack(one_by_one))
    np.testing.assert_array_equal(draws().rows(ids[::-1]), together[::-1])


def test_other_seeds_and_purposes_draw_other_numbers() -> None:
    ids = np.arange(4)
    same = draws().rows(ids)
    assert not np.isin(draws(seed=1).rows(ids), same).any()
    assert not np.isin(draws(purpose="prompts").rows(ids), same).any()


def test_blocks_do_not_repeat_each_other() -> None:
    rows = draws().rows(np.arange(3 * BLOCK))
    assert len(np.unique(rows)) == rows.size
