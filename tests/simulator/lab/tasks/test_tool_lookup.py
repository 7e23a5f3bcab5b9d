import math

import numpy as np
import pytest
import torch
from torch import Tensor

from simulator.lab.tasks.game import CHOOSE, END
from simulator.lab.tasks.tool_lookup import ANSWER, CALL, CRASH, NODES, VALUES, WORDS, ToolLookup
from tests.simulator.lab.tasks.played_by_hand import play, reward, say

GAME = ToolLookup(seed=5, most_turns=8)


def prompt_of(turns: int, game: ToolLookup = GAME) -> Tensor:
    prompts = game.prompts(np.arange(400))
    return prompts[game.turns(prompts) == turns][0]


def observed(prompt: Tensor, called: list[int], game: ToolLookup = GAME) -> list[int]:
    """What each of these calls returns, one after the other."""
    tokens, mask = say(game, prompt, [token for node in called for token in (CALL, node)])
    return [token for token, chosen in zip(tokens, mask, strict=True) if not chosen]


def chain(prompt: Tensor, turns: int, game: ToolLookup = GAME) -> tuple[list[int], int]:
    """Its nodes and its value, by asking the environment alone."""
    nodes = [int(prompt[-1])]
    for _ in range(turns - 2):
        nodes.append(observed(prompt, nodes, game)[-1])
    return nodes, observed(prompt, nodes, game)[-1]


def test_right_play_of_three_turns() -> None:
    prompt = prompt_of(3)
    (start, second), value = chain(prompt, 3)
    assert second < NODES <= VALUES <= value < 2 * NODES
    tokens, mask = say(GAME, prompt, [CALL, start, WORDS, CALL, second, ANSWER, value, WORDS])
    assert tokens == [CALL, start, second, WORDS, CALL, second, value, ANSWER, value]
    assert mask == [True, True, False, True, True, True, False, True, True]
    assert reward(GAME, prompt, tokens, mask) == 1


def test_a_wrong_call_returns_what_that_node_points_to_and_leads_astray() -> None:
    prompt = prompt_of(4)
    (start, second, third), value = chain(prompt, 4)
    slip = (second + 3) % NODES
    # All nodes of a page point elsewhere, and it is a circle turned: three nodes on, three nodes on.
    assert sorted(observed(prompt, [start, node])[-1] for node in range(NODES)) == list(range(NODES))
    astray = observed(prompt, [start, slip])[-1]
    assert astray == (third + 3) % NODES
    wrong = observed(prompt, [start, slip, astray])[-1]
    assert wrong == VALUES + (value - VALUES + 3) % NODES
    spoken = [CALL, start, CALL, slip, CALL, astray, ANSWER]
    assert reward(GAME, prompt, *say(GAME, prompt, [*spoken, wrong])) == 0
    # Only the answer counts: who guesses right is right.
    assert reward(GAME, prompt, *say(GAME, prompt, [*spoken, value])) == 1


def test_an_early_answer_ends_the_episode() -> None:
    prompt = prompt_of(4)
    (start, second, _), value = chain(prompt, 4)
    other = VALUES + (value - VALUES + 1) % NODES
    for said, earned in [(value, 1), (other, 0), (second, 0), (WORDS, 0), (ANSWER, 0), (CALL, 0)]:
        tokens, mask = say(GAME, prompt, [CALL, start, ANSWER, said, value, value])
        assert tokens == [CALL, start, second, ANSWER, said]
        assert reward(GAME, prompt, tokens, mask) == earned


def test_an_answer_without_a_value_earns_nothing() -> None:
    prompt = prompt_of(2)
    (_,), value = chain(prompt, 2)
    thoughts = [WORDS] * (GAME.response_tokens - 1)
    tokens, mask = say(GAME, prompt, [*thoughts, ANSWER, value])
    assert len(tokens) == GAME.response_tokens
    assert tokens[-1] == ANSWER
    assert reward(GAME, prompt, tokens, mask) == 0
    tokens, mask = say(GAME, prompt, [*thoughts[1:], ANSWER, value])
    assert reward(GAME, prompt, tokens, mask) == 1


def test_whoever_thinks_too_long_is_truncated() -> None:
    prompt = prompt_of(2)
    tokens, mask = say(GAME, prompt, [WORDS] * 100)
    assert tokens == [WORDS] * GAME.response_tokens
    assert all(mask)
    assert reward(GAME, prompt, tokens, mask) == 0
    assert GAME.follow(prompt[None], torch.tensor([tokens]), GAME.response_tokens).tolist() == [CHOOSE]


@pytest.mark.parametrize(
    "thought",
    [
        [CALL, CALL],
        [CALL, WORDS],
        [CALL, VALUES],
        [CALL, CRASH],
        [3, 3],
        [VALUES, 4],
        [CRASH],
        [WORDS, CALL, WORDS + 1],
    ],
)
def test_what_is_no_call_and_no_answer_is_a_thought(thought: list[int]) -> None:
    prompt = prompt_of(3)
    (start, second), value = chain(prompt, 3)
    spoken = [*thought, WORDS, CALL, start, *thought, WORDS, CALL, second, ANSWER, value]
    tokens, mask = say(GAME, prompt, spoken)
    assert [token for token, chosen in zip(tokens, mask, strict=True) if chosen] == spoken
    assert mask.count(False) == 2
    assert reward(GAME, prompt, tokens, mask) == 1
    assert not GAME.crashed(torch.tensor([tokens])).any()


def test_calls_beyond_the_end_return_values() -> None:
    prompt = prompt_of(2)
    start = int(prompt[-1])
    assert all(token >= VALUES for token in observed(prompt, [start, 0, 7, start]))


def test_a_crash_ends_the_episode_without_reward() -> None:
    game = ToolLookup(seed=5, most_turns=8, crash_probability=0.2)
    prompts = game.prompts(np.arange(2000))
    right = GAME.demonstration(prompts)
    played = play(game, prompts, right.tokens)
    crashed = game.crashed(played.tokens)
    assert torch.equal(game.rewards(prompts, *played), (~crashed).float())
    for tokens, mask in zip(
        played.tokens[crashed].tolist(), played.action_mask[crashed].tolist(), strict=True
    ):
        at = tokens.index(CRASH)
        assert tokens[at - 2] == CALL
        assert not any(mask[at:])
    # Calls that were made, those that crashed among them: a crash at each with probability 0.2.
    calls = int(((played.tokens == CALL) & played.action_mask).sum())
    assert abs(int(crashed.sum()) - 0.2 * calls) < 4 * math.sqrt(calls * 0.2 * 0.8)


def test_padding_crashes_nothing_and_earns_nothing() -> None:
    prompt = prompt_of(4)
    (start, _, _), value = chain(prompt, 4)
    wrong = VALUES + (value - VALUES + 1) % NODES
    tokens, mask = say(GAME, prompt, [CALL, start, ANSWER, wrong])
    spare = GAME.response_tokens - len(tokens)
    for junk in ([CALL, 0, CRASH], [ANSWER, value], [value, ANSWER]):
        row = torch.tensor([tokens + (junk * spare)[:spare]])
        assert not GAME.crashed(row).any()
        assert GAME.rewards(prompt[None], row, torch.tensor([mask + [False] * spare])).item() == 0
        for t in range(len(tokens), GAME.response_tokens + 1):
            assert GAME.follow(prompt[None], row, t).item() == END


def test_equal_transcripts_meet_equal_fates_and_others_their_own() -> None:
    game = ToolLookup(seed=5, most_turns=8, crash_probability=0.5)
    prompt = prompt_of(2)
    start = int(prompt[-1])
    fates = {}
    for word in range(WORDS, game.vocabulary):
        for pause in range(1, 9):
            spoken = [word] * pause + [CALL, start]
            fates[word, pause] = say(game, prompt, spoken)
            assert fates[word, pause] == say(game, prompt, spoken)
    crashes = sum(tokens[-1] == CRASH for tokens, _ in fates.values())
    assert abs(crashes - 16) < 4 * math.sqrt(32 / 4)


@pytest.mark.parametrize(("most", "observation"), [(40, 1), (12, 5), (3, 40)])
def test_demonstrations_replayed_are_themselves_and_right(most: int, observation: int) -> None:
    game = ToolLookup(seed=5, most_turns=most, observation_tokens=observation)
    prompts = game.prompts(np.arange(3000))
    shown = game.demonstration(prompts)
    played = play(game, prompts, shown.tokens)
    assert torch.equal(played.action_mask, shown.action_mask)
    said = torch.arange(game.response_tokens) < game.said_tokens(prompts)[:, None]
    assert torch.equal(played.tokens.where(said, 0), shown.tokens)
    assert (game.rewards(prompts, *played) == 1).all()
    calls = ((shown.tokens == CALL) & shown.action_mask).sum(-1)
    assert torch.equal(calls + 1, game.turns(prompts))
    # Observations are all that is masked before the end.
    assert torch.equal((said & ~shown.action_mask).sum(-1), observation * calls)


def test_a_model_of_no_skill_keeps_the_rules() -> None:
    # `play` checks that END stays END; junk follows it.
    game = ToolLookup(seed=5, most_turns=12, crash_probability=0.1)
    prompts = game.prompts(np.arange(2000))
    rng = torch.Generator().manual_seed(0)
    choices = torch.randint(game.vocabulary, (2000, game.response_tokens), generator=rng)
    choices[::2, ::3] = CALL
    played = play(game, prompts, choices)
    forced = torch.stack([game.follow(prompts, played.tokens, t) for t in range(game.response_tokens)], -1)
    assert torch.equal(forced == CHOOSE, played.action_mask)
    observations = forced >= 0
    assert torch.equal(played.tokens[observations], forced[observations])
    # Exactly the places two after `CALL node`, while the episode lasts.
    tokens, lasts = played.tokens, forced != END
    after_call = (tokens[:, :-2] == CALL) & (tokens[:, 1:-1] < NODES) & lasts[:, 2:]
    assert torch.equal(observations[:, 2:], after_call)
    assert not observations[:, :2].any()
    assert (tokens[observations] == CRASH).sum() == game.crashed(tokens).sum() > 0


def test_rows_do_not_see_each_other() -> None:
    prompts = GAME.prompts(np.arange(50))
    tokens = GAME.demonstration(prompts).tokens
    for t in range(GAME.response_tokens):
        alone = [GAME.follow(prompts[i : i + 1], tokens[i : i + 1], t).item() for i in range(50)]
        assert GAME.follow(prompts, tokens, t).tolist() == alone


def test_what_comes_later_does_not_matter() -> None:
    prompts = GAME.prompts(np.arange(100))
    tokens = GAME.demonstration(prompts).tokens
    for t in range(GAME.response_tokens):
        changed = tokens.clone()
        changed[:, t:] = CRASH
        assert torch.equal(GAME.follow(prompts, tokens, t), GAME.follow(prompts, changed, t))


def test_an_id_has_one_prompt_whoever_asks() -> None:
    twin = ToolLookup(seed=5, most_turns=8)
    first, again = GAME.prompts(np.arange(100)), twin.prompts(np.arange(99, -1, -1)).flip(0)
    assert torch.equal(first, again)
    assert torch.equal(GAME.demonstration(first).tokens, twin.demonstration(again).tokens)
    other = ToolLookup(seed=6, most_turns=8).prompts(np.arange(100))
    assert not (first == other).all(-1).any()


def test_tables_cannot_be_memorised() -> None:
    # What the start node points to is uniform, whatever the start: chi-square of 16 x 16 cells, 255 freedoms.
    game = ToolLookup(seed=5)
    prompts = game.prompts(np.arange(60_000))
    tokens = game.demonstration(prompts).tokens
    pairs = torch.bincount(prompts[:, -1] * NODES + tokens[:, 3] % NODES, minlength=NODES**2)
    expected = len(prompts) / NODES**2
    chi_square = ((pairs - expected) ** 2 / expected).sum().item()
    assert abs(chi_square - 255) < 5 * math.sqrt(2 * 255)


def test_depths_have_the_stated_mean_and_a_heavy_tail() -> None:
    game = ToolLookup(seed=5)
    turns = game.turns(game.prompts(np.arange(40_000))).double()
    assert turns.min() == 2
    assert turns.max() == 40
    deviation = turns.std().item()
    assert abs(turns.mean().item() - game.mean_turns) < 4 * deviation / 200
    # E[D] = 2 + sum over d of P(D >= d), d = 3 .. 40.
    at_least = {d: (d**-1.5 - 41**-1.5) / (2**-1.5 - 41**-1.5) for d in range(3, 41)}
    assert game.mean_turns == pytest.approx(2 + sum(at_least.values()))
    # 1.9 % beyond 20 turns; a geometric law of the same mean would leave 0.1 %.
    beyond_20 = (turns > 20).double().mean().item()
    expected = at_least[21]
    assert abs(beyond_20 - expected) < 4 * math.sqrt(expected / 40_000)


def test_hard_prompts_are_long_and_the_mean_is_one() -> None:
    game = ToolLookup(seed=5)
    prompts = game.prompts(np.arange(3000))
    lengths = torch.tensor([game.relative_length(i) for i in range(3000)], dtype=torch.float64)
    assert torch.allclose(
        lengths / lengths[0], game.said_tokens(prompts).double() / game.said_tokens(prompts)[0]
    )
    assert abs(lengths.mean().item() - 1) < 4 * lengths.std().item() / math.sqrt(3000)


def test_the_prompt_tells_its_depth_to_who_can_read_it() -> None:
    prompts = ToolLookup(seed=5).prompts(np.arange(3000))
    turns = ToolLookup(seed=5).turns(prompts)
    order = sorted(range(3000), key=lambda row: prompts[row].tolist())
    assert (turns[order].diff() >= 0).all()


def test_a_long_observation_is_words_and_then_the_pointer() -> None:
    long = ToolLookup(seed=5, most_turns=8, observation_tokens=3)
    prompt = prompt_of(3)
    (start, second), value = chain(prompt, 3)
    tokens, mask = say(long, prompt, [CALL, start, CALL, second, ANSWER, value])
    noise = [tokens[2], tokens[3], tokens[7], tokens[8]]
    assert all(WORDS <= token < long.vocabulary for token in noise)
    assert tokens == [CALL, start, *noise[:2], second, CALL, second, *noise[2:], value, ANSWER, value]
    assert mask == [*[True, True, False, False, False] * 2, True, True]
    assert reward(long, prompt, tokens, mask) == 1


def test_a_crash_is_all_there_is_of_a_long_observation() -> None:
    game = ToolLookup(seed=5, most_turns=8, observation_tokens=3, crash_probability=0.5)
    prompts = game.prompts(np.arange(500))
    played = play(game, prompts, game.demonstration(prompts).tokens)
    crashed = game.crashed(played.tokens)
    assert torch.equal(game.rewards(prompts, *played), (~crashed).float())
    ended = torch.stack([game.follow(prompts, played.tokens, t) == END for t in range(48)], -1)
    crash = (played.tokens == CRASH) & ~ended
    assert torch.equal(crash.sum(-1), crashed.long())
    # Right after `CALL node`, and the last token there is.
    assert (played.tokens[:, :-1][crash[:, 1:]] < NODES).all()
    assert ended[:, 1:][crash[:, :-1]].all()


@pytest.mark.parametrize("probability", [-0.1, 1.0, math.nan])
def test_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="crash_probability"):
        ToolLookup(seed=0, crash_probability=probability)
    with pytest.raises(ValueError, match="observation_tokens"):
        ToolLookup(seed=0, observation_tokens=0)


def test_its_name_is_its_numbers() -> None:
    assert repr(ToolLookup(seed=4, crash_probability=0.1)) == (
        "ToolLookup(seed=4, most_turns=40, tail=1.5, crash_probability=0.1, observation_tokens=1)"
    )
    assert ToolLookup(seed=4) == ToolLookup(seed=4) != ToolLookup(seed=5)
