"""A warm start is a function of what it is named by, cached or not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from simulator.lab.models.warm_start import (
    Lessons,
    NotReachedError,
    WarmStart,
    default_cache,
    digest,
    taught,
    warm_started,
)
from tests.simulator.lab.models.small import SIZES, Sums

GAME = Sums()
# The reward counts how often the wanted token is said; about 1.1 for a model that knows nothing.
RECIPE = WarmStart(
    accuracy=1.0, most_steps=60, batch=32, check_every=10, check_prompts=64, learning_rate=0.01
)


def lessons(count: int = 64) -> Lessons:
    checks = 100_000 + np.arange(count)
    uniforms = torch.rand(count, GAME.response_tokens, generator=torch.Generator().manual_seed(0))
    return Lessons(lambda first, n: first + np.arange(n), checks, uniforms)


def vector(model) -> torch.Tensor:
    return model.snapshot().vector


@dataclasses.dataclass(frozen=True, kw_only=True)
class Half(Sums):
    """1 if all is right, as in a real game."""

    def rewards(self, prompts, tokens, action_mask, /):
        right = (tokens[:, 0] == prompts[:, 0]) & (action_mask.sum(1) == 2)
        return right.float()


HALF = Half()
HALF_RECIPE = dataclasses.replace(RECIPE, accuracy=0.5, most_steps=200)


def test_the_same_twice_and_with_any_number_of_threads():
    first = vector(taught(HALF, SIZES, 1, HALF_RECIPE, lessons()))
    torch.set_num_threads(2)
    try:
        second = vector(taught(HALF, SIZES, 1, HALF_RECIPE, lessons()))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert torch.equal(first, second)
    assert not torch.equal(first, vector(taught(HALF, SIZES, 2, HALF_RECIPE, lessons())))


def test_with_the_cache_and_without(tmp_path):
    plain = vector(warm_started(HALF, SIZES, 1, HALF_RECIPE, lessons(), cache=None))
    made = vector(warm_started(HALF, SIZES, 1, HALF_RECIPE, lessons(), cache=tmp_path / "new"))
    files = list((tmp_path / "new").iterdir())
    assert [file.suffix for file in files] == [".pt"]
    written = files[0].stat().st_mtime_ns
    read = vector(warm_started(HALF, SIZES, 1, HALF_RECIPE, lessons(), cache=tmp_path / "new"))
    assert files[0].stat().st_mtime_ns == written
    assert torch.equal(plain, made)
    assert torch.equal(plain, read)


@pytest.mark.parametrize("broken", [b"", b"not a file of weights", b"PK\x03\x04 cut"])
def test_a_broken_file_is_made_again(tmp_path, broken):
    wanted = vector(warm_started(HALF, SIZES, 1, HALF_RECIPE, lessons(), cache=tmp_path))
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(broken)
    assert torch.equal(wanted, vector(warm_started(HALF, SIZES, 1, HALF_RECIPE, lessons(), cache=tmp_path)))
    assert len(file.read_bytes()) == len(whole)
    torch.save({"other": torch.zeros(2)}, file)
    assert torch.equal(wanted, vector(warm_started(HALF, SIZES, 1, HALF_RECIPE, lessons(), cache=tmp_path)))


def test_all_that_decides_the_result_is_in_the_name():
    names = {
        digest(GAME, SIZES, 0, RECIPE, lessons()),
        digest(Sums(seed=1), SIZES, 0, RECIPE, lessons()),
        digest(HALF, SIZES, 0, RECIPE, lessons()),
        digest(GAME, dataclasses.replace(SIZES, heads=1), 0, RECIPE, lessons()),
        digest(GAME, SIZES, 1, RECIPE, lessons()),
        digest(GAME, SIZES, 0, dataclasses.replace(RECIPE, batch=33), lessons()),
        digest(GAME, SIZES, 0, RECIPE, lessons(63)),
    }
    assert len(names) == 7
    assert digest(Sums(), SIZES, 0, RECIPE, lessons()) in names


def test_a_game_that_does_not_say_what_it_is_is_refused():
    class Nameless(Sums):
        __repr__ = object.__repr__

    with pytest.raises(ValueError, match="does not say what defines it"):
        digest(Nameless(), SIZES, 0, RECIPE, lessons())


def test_it_stops_at_the_accuracy():
    model = taught(HALF, SIZES, 1, HALF_RECIPE, lessons())
    prompts = HALF.prompts(200_000 + np.arange(2000))
    # 0.5 was measured on 64 prompts: three standard errors are .19.
    sure = model.log_probs(prompts, HALF.demonstration(prompts).tokens[:, :2]).sum(1).exp()
    assert sure.mean().item() > 0.5 - 0.19


def test_an_accuracy_out_of_reach_is_an_error_with_its_numbers():
    said = r"world.warm_start_accuracy is 1.0: 20 steps .* of 32 demonstrations reached 0\.\d+ at best"
    with pytest.raises(NotReachedError, match=said):
        taught(HALF, SIZES, 0, dataclasses.replace(HALF_RECIPE, accuracy=1.0, most_steps=20), lessons())


@pytest.mark.parametrize("wrong", [{"accuracy": 1.5}, {"accuracy": 0.0}, {"batch": 0}])
def test_impossible_recipes_are_refused(wrong):
    with pytest.raises(ValueError, match="positive numbers"):
        WarmStart(**wrong)


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("POLICYLAG_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("POLICYLAG_CACHE")
    assert default_cache().parts[-2:] == (".cache", "policylag")
