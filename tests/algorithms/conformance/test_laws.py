"""Every composition obeys every law, and every fault is caught by the law that forbids it."""
# ruff: noqa: ARG001, ARG005 - a loss function takes all four, whether it reads them or not

import dataclasses
import inspect

import pytest
import torch

from algorithms.advantage import require_groups
from algorithms.catalogue import by_name
from algorithms.conformance.check import check
from algorithms.conformance.fixture import assert_conforms, conforms_fixture
from algorithms.conformance.laws import LAWS, nan_is_inert, on_policy_is_reinforce
from algorithms.conformance.subject import as_subject
from tests.algorithms.conformance.broken import BROKEN, SOUND, naive_rewards, sound_loss

conforms = conforms_fixture()

NOT_REINFORCE: dict[str, str] = {}
"""Compositions whose on-policy gradient is another one by design, and why."""
LENGTHS = {"vapo": {"shortest": 20, "longest": 24}}
"""Compositions that refuse short rollouts."""


@pytest.mark.parametrize("name", list(by_name()))
def test_every_composition_obeys_every_law(name: str):
    verdicts = check(by_name()[name](), examples=4, **LENGTHS.get(name, {}))
    assert [v.law for v in verdicts] == [law.__name__ for law in LAWS]
    broken = {v.law: v for v in verdicts if not v.holds}
    if name in NOT_REINFORCE:
        broken.pop(on_policy_is_reinforce.__name__)  # a KeyError here: the exception is out of date
    assert not broken
    assert all(v.examples > 0 for v in verdicts)


@pytest.mark.parametrize("fault", list(BROKEN))
def test_a_fault_breaks_its_law_and_no_other_on_a_batch_that_fits_on_a_page(fault: str):
    thing, law = BROKEN[fault]
    (verdict,) = check(thing, laws=[law], examples=60)
    assert not verdict.holds
    others = check(thing, laws=[other for other in LAWS if other is not law], examples=5)
    assert [v.law for v in others if not v.holds] == []
    found = verdict.counterexample
    assert found is not None
    assert len(found.action_mask) <= 3
    assert sum(map(len, found.action_mask)) <= 4
    assert found.expected != found.got


def test_every_law_has_a_fault_that_it_catches():
    assert {law for _, law in BROKEN.values()} == set(LAWS)


def test_the_counterexample_to_masking_by_multiplication_is_one_action_and_one_observation():
    (verdict,) = check(BROKEN["mask by multiplication"][0], laws=[nan_is_inert])
    assert verdict.counterexample is not None
    found = verdict.counterexample
    assert found.action_mask in ([[1, 0]], [[0, 1]])
    assert found.log_ratios == [[0.0, 0.0]]
    assert found.got != found.got  # NaN


def test_reading_padding_breaks_both_laws_of_padding():
    verdicts = check(dataclasses.replace(SOUND, advantage=naive_rewards), examples=20)
    assert [v.law for v in verdicts if not v.holds] == ["nan_is_inert", "padding_is_inert"]


def test_sound_things_conform_as_estimator_as_loss_function_and_as_fixture(conforms):
    assert_conforms(SOUND, examples=10)
    conforms(sound_loss, examples=10)


def test_the_helper_says_what_is_wrong_with_the_numbers():
    with pytest.raises(
        AssertionError, match=r"(?s)FAILS shards_add_up.*2 rollouts.*expected -0\.5.*got      -1"
    ):
        assert_conforms(BROKEN["mean in a loss function"][0], examples=60)


def test_two_checks_find_the_same():
    thing, law = BROKEN["groups by position"]
    assert check(thing, laws=[law]) == check(thing, laws=[law])


def test_a_refusal_is_no_fault_unless_every_batch_is_refused():
    def peers_only(batch):
        require_groups(batch)
        return SOUND.advantage(batch)

    (verdict,) = check(dataclasses.replace(SOUND, advantage=peers_only), laws=[nan_is_inert])
    assert verdict.holds
    assert verdict.refused > 0
    assert verdict.examples > 0

    def refuse(batch):
        raise ValueError("no batch is good enough")

    (verdict,) = check(dataclasses.replace(SOUND, advantage=refuse), laws=[nan_is_inert], examples=5)
    assert not verdict.holds
    assert "refused all" in verdict.why
    assert "no batch is good enough" in verdict.why


def test_losses_that_cannot_be_trained_on_break_a_law_and_not_the_check():
    def crashes(log_probs, old_log_probs, advantages, mask):
        return torch.zeros(3) @ torch.zeros(4)

    def without_gradient(log_probs, old_log_probs, advantages, mask):
        return torch.tensor(1.0)

    def no_scalar(log_probs, old_log_probs, advantages, mask):
        return log_probs

    for loss, said in ((crashes, "RuntimeError"), (without_gradient, "no gradient"), (no_scalar, "(1, 1)")):
        (verdict,) = check(loss, laws=[nan_is_inert], examples=3)
        assert verdict.counterexample is not None
        assert said in str(verdict.counterexample.got)


def test_an_answer_that_changes_is_named():
    calls = iter(range(10**6))

    def moody(log_probs, old_log_probs, advantages, mask):
        return log_probs.where(mask, 0.0).sum() * (1.0 if next(calls) != 2 else 2.0)

    (verdict,) = check(moody, laws=[nan_is_inert], examples=5)
    assert not verdict.holds
    assert "another answer" in verdict.why


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (3, "got an int"),
        (lambda log_probs, mask: None, "its arguments are"),
        (lambda old_log_prob, log_prob, advantages, response_mask: None, "by these names"),
        (lambda log_probs, old_log_probs, advantages, mask, beta: None, "beta"),
    ],
)
def test_what_is_neither_is_refused(thing, said: str):
    with pytest.raises(ValueError, match=said):
        as_subject(thing)


def test_a_check_of_no_examples_is_refused():
    with pytest.raises(ValueError, match="examples must be at least 1, got 0"):
        check(SOUND, examples=0)


def test_every_law_says_what_it_wants_in_one_sentence():
    for law in LAWS:
        assert (inspect.getdoc(law) or "").partition("\n")[0].endswith(".")
