import numpy as np
import pytest
import torch

from simulator.lab.tasks.numbered import IDS, deciphered, enciphered, hashed, number


def mixed(x: int) -> int:
    """The same in Python's whole numbers."""
    x ^= x >> 16
    x = x * 0x7FEB352D % 2**32
    x ^= x >> 15
    x = x * 0x846CA68B % 2**32
    return x ^ x >> 16


def hashed_slowly(*words: int) -> int:
    total = 0
    for word in words:
        total = mixed((total + word + 0x9E3779B9) % 2**32)
    return total


def test_hash_of_large_and_small_words_is_that_of_whole_numbers() -> None:
    for words in [(0,), (2**32 - 1,), (5, 7), (7, 5), (0, 0, 2**40)]:
        assert hashed(*(torch.tensor([w]) for w in words)).tolist() == [hashed_slowly(*words)]


def test_prompt_is_its_number_in_hexadecimal() -> None:
    prompts = enciphered(np.array([12]), seed=7)
    as_text = "".join(f"{digit:x}" for digit in prompts[0].tolist())
    assert int(as_text, 16) == number(prompts).item() == mixed(12 ^ hashed_slowly(7, 0))


@pytest.mark.parametrize("seed", [0, 7, 2**40 + 1])
def test_ids_come_back(seed: int) -> None:
    ids = np.concatenate((np.arange(5000), np.arange(IDS - 5000, IDS), 2 ** np.arange(32)))
    assert np.array_equal(deciphered(enciphered(ids, seed=seed), seed=seed).numpy(), ids)


def test_neighbours_have_nothing_in_common() -> None:
    # Each digit of consecutive prompts agrees by chance alone: 1/16, five standard errors allowed.
    prompts = enciphered(np.arange(20_000), seed=1)
    agree = (prompts[1:] == prompts[:-1]).double().mean(0)
    assert ((agree - 1 / 16).abs() < 5 * (15 / 256 / 20_000) ** 0.5).all()


def test_other_seeds_have_other_prompts() -> None:
    agree = enciphered(np.arange(20_000), seed=1) == enciphered(np.arange(20_000), seed=2)
    assert ((agree.double().mean(0) - 1 / 16).abs() < 5 * (15 / 256 / 20_000) ** 0.5).all()


@pytest.mark.parametrize("prompt_id", [-1, IDS])
def test_ids_without_a_prompt_are_refused(prompt_id: int) -> None:
    with pytest.raises(ValueError, match=f"got {prompt_id} .. {prompt_id}"):
        enciphered(np.array([prompt_id]), seed=0)
