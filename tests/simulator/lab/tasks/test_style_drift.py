import math

import numpy as np
import pytest
import torch

from simulator.lab.tasks.game import CHOOSE, END
from simulator.lab.tasks.style_drift import STYLE_NAMES, STYLES, StyleDrift
from tests.simulator.lab.tasks.played_by_hand import play

CUTE, CHUUNIBYOU, CLASSICAL = range(STYLES, STYLES + 3)
GAME = StyleDrift(seed=3, shifts=(100, 250))


def rewards(game: StyleDrift, ids: list[int], tokens: list[list[int]]) -> list[float]:
    said = torch.tensor(tokens)
    return game.rewards(game.prompts(np.array(ids)), said, torch.ones_like(said, dtype=torch.bool)).tolist()


def test_renderings_by_hand() -> None:
    # a + i s mod 16 for i = 1 .. 4, s = 1, 4, 7.
    prompt = torch.tensor([[0, 9, 15, 3, 7, 7, 7, 7]])
    texts = {
        CUTE: [1, 11, 2, 7],
        CHUUNIBYOU: [4, 1, 11, 3],
        CLASSICAL: [7, 7, 4, 15],
    }
    for style, text in texts.items():
        for named in (CUTE, CHUUNIBYOU, CLASSICAL):
            assert GAME.quality(prompt, torch.tensor([[named, *text]])).item() == (named == style)


def test_one_wrong_token_and_the_quality_is_gone() -> None:
    prompts = GAME.prompts(np.arange(6))
    right = GAME.demonstration(prompts).tokens
    assert GAME.quality(prompts, right).all()
    for place in range(1, 5):
        wrong = right.clone()
        wrong[:, place] = (wrong[:, place] + 1) % STYLES
        assert not GAME.quality(prompts, wrong).any()
    for opening in (0, STYLES - 1):  # text of a style without saying which
        wrong = right.clone()
        wrong[:, 0] = opening
        assert not GAME.quality(prompts, wrong).any()
    for place in range(1, 5):
        wrong = right.clone()
        wrong[:, place] = CUTE
        assert not GAME.quality(prompts, wrong).any()


def test_no_two_styles_agree_at_any_place() -> None:
    prompts = GAME.prompts(np.arange(3000))
    shown = GAME.demonstration(prompts).tokens
    strides = [set(((shown[:, i] - prompts[:, i - 1]) % 16).tolist()) for i in range(1, 5)]
    assert [len(seen) for seen in strides] == [3, 3, 3, 3]


def test_taste_shifts_at_the_very_prompt() -> None:
    ids = np.array([0, 99, 100, 101, 249, 250, 251, 10**9])
    assert GAME.rewarded_style(ids).tolist() == [0, 0, 1, 1, 1, 2, 2, 2]
    assert [STYLE_NAMES[style] for style in GAME.rewarded_style(ids)[[0, 2, 5]]] == [
        "cute",
        "chuunibyou",
        "classical",
    ]


def test_the_reward_is_quality_times_taste_of_the_moment() -> None:
    for around, styles in [(100, (CUTE, CHUUNIBYOU)), (250, (CHUUNIBYOU, CLASSICAL))]:
        for prompt_id, liked in zip((around - 1, around), styles, strict=True):
            prompt = GAME.prompts(np.array([prompt_id]))[0, :4].tolist()
            texts = [
                [style, *((symbol + (i + 1) * stride) % 16 for i, symbol in enumerate(prompt))]
                for style, stride in ((CUTE, 1), (CHUUNIBYOU, 4), (CLASSICAL, 7))
            ]
            earned = rewards(GAME, [prompt_id] * 3, texts)
            assert earned == [float(style == liked) for style in (CUTE, CHUUNIBYOU, CLASSICAL)]
            spoilt = [[*text[:-1], (text[-1] + 1) % 16] for text in texts]
            assert rewards(GAME, [prompt_id] * 3, spoilt) == [0, 0, 0]


def test_fewer_shifts_leave_the_last_styles_out() -> None:
    assert StyleDrift(seed=3, shifts=()).rewarded_style(np.array([0, 10**6])).tolist() == [0, 0]
    assert StyleDrift(seed=3, shifts=(7,)).rewarded_style(np.array([6, 7])).tolist() == [0, 1]
    assert StyleDrift(seed=3, shifts=(0, 4)).rewarded_style(np.array([0, 4])).tolist() == [1, 2]


@pytest.mark.parametrize("shifts", [(5, 5), (7, 3), (-1,), (1, 2, 3)])
def test_shifts_out_of_order_are_refused(shifts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="rising prompt ids"):
        StyleDrift(seed=0, shifts=shifts)


def test_nothing_in_the_prompt_tells_the_taste() -> None:
    # Shares of each symbol at each place before and after a shift: equal within five standard errors.
    game = StyleDrift(seed=3, shifts=(20_000,))
    prompts = game.prompts(np.arange(40_000))
    shares = [
        torch.stack([torch.bincount(column, minlength=16) for column in half.T]) / 20_000
        for half in prompts.split(20_000)
    ]
    assert (shares[0] - shares[1]).abs().max() < 5 * math.sqrt(2 * 15 / 256 / 20_000)


def test_prompts_never_come_back_and_an_id_has_one_prompt() -> None:
    prompts = GAME.prompts(np.arange(50_000))
    assert len(prompts.unique(dim=0)) == 50_000
    twin = StyleDrift(seed=3, shifts=())
    assert torch.equal(twin.prompts(np.arange(99, -1, -1)).flip(0), prompts[:100])


def test_demonstrations_are_good_and_in_all_styles_alike() -> None:
    ids = np.arange(30_000)
    prompts = GAME.prompts(ids)
    shown = GAME.demonstration(prompts)
    played = play(GAME, prompts, shown.tokens)
    assert torch.equal(played.tokens, shown.tokens)
    assert played.action_mask.all()
    assert shown.action_mask.all()
    assert GAME.quality(prompts, played.tokens).all()
    style = shown.tokens[:, 0] - STYLES
    assert ((torch.bincount(style) / 30_000 - 1 / 3).abs() < 4 * math.sqrt(2 / 9 / 30_000)).all()
    liked = torch.from_numpy(GAME.rewarded_style(ids))
    assert torch.equal(GAME.rewards(prompts, *played), (style == liked).float())
    # Whoever reads the first digit, or any other, learns nothing of the style that is shown.
    for digit in prompts.T:
        table = torch.bincount(digit * 3 + style, minlength=48)
        chi_square = ((table - 625) ** 2 / 625).sum().item()
        assert chi_square < 47 + 5 * math.sqrt(2 * 47)


def test_a_response_is_a_style_and_four_symbols() -> None:
    prompts = GAME.prompts(np.arange(3))
    tokens = torch.zeros(3, 5, dtype=torch.long)
    follows = [GAME.follow(prompts, tokens, t).tolist() for t in range(6)]
    assert follows == [[CHOOSE] * 3] * 5 + [[END] * 3]
    assert GAME.said_tokens(prompts).tolist() == [5, 5, 5]
    assert GAME.relative_length(17) == 1.0


def test_its_name_is_its_numbers() -> None:
    assert repr(GAME) == "StyleDrift(seed=3, shifts=(100, 250))"
