import torch
from torch import Tensor

from simulator.lab.models.pairs import PairCritic, PairPolicy, question_numbers


def networks() -> tuple[PairPolicy, PairCritic]:
    generator = torch.Generator().manual_seed(0)
    policy = PairPolicy(modulus=10, hidden=16, generator=generator)
    return policy, PairCritic(policy, generator=generator)


def prompts() -> Tensor:
    return torch.randint(0, 10, (4, 12), generator=torch.Generator().manual_seed(1))


def test_question_numbers_list_all_pairs() -> None:
    pairs = [(i, j) for i in range(7) for j in range(7)]
    a, b = (torch.tensor([column]) for column in zip(*pairs, strict=True))
    assert question_numbers(torch.cat([a, b], dim=1), 7).flatten().tolist() == list(range(49))


def test_the_table_is_the_network_on_every_one_hot_pair() -> None:
    policy, _ = networks()
    with torch.no_grad():
        for a in range(10):
            for b in range(10):
                hot = torch.zeros(20)
                hot[[a, 10 + b]] = 1.0
                logits = (
                    torch.relu(hot @ policy.first + policy.first_bias) @ policy.second + policy.second_bias
                )
                torch.testing.assert_close(policy()[10 * a + b], logits.log_softmax(-1))


def test_log_probs_are_the_tables_entries() -> None:
    policy, _ = networks()
    asked, answers = prompts(), torch.randint(0, 10, (4, 6), generator=torch.Generator().manual_seed(3))
    said, listed = policy.log_probs(asked, answers), policy()
    for row in range(4):
        for t in range(6):
            a, b = asked[row, t], asked[row, 6 + t]
            assert said[row, t] == listed[10 * a + b, answers[row, t]]


def test_a_value_never_sees_its_own_answer_or_a_later_one() -> None:
    _, critic = networks()
    with torch.no_grad():  # a head of zeros would hide everything
        critic.head.copy_(torch.randn(16, generator=torch.Generator().manual_seed(2)))
    asked, answers = prompts(), torch.zeros(4, 6, dtype=torch.long)
    for t in range(6):
        changed = answers.clone()
        changed[:, t:] = 7
        before, after = critic.values(asked, answers), critic.values(asked, changed)
        torch.testing.assert_close(before[:, : t + 1], after[:, : t + 1], rtol=0, atol=0)
        if t < 5:
            assert (before[:, t + 1 :] != after[:, t + 1 :]).all()


def test_the_critic_starts_from_the_policys_weights_and_at_value_zero() -> None:
    policy, critic = networks()
    assert torch.equal(critic.pair, policy.first)
    assert torch.equal(critic.answered_pair, policy.first)
    assert (critic.values(prompts(), torch.zeros(4, 6, dtype=torch.long)) == 0).all()


def test_a_snapshot_does_not_follow_the_policy() -> None:
    policy, _ = networks()
    kept, said = policy.snapshot().table, policy().detach().clone()
    with torch.no_grad():
        policy.first.mul_(2.0)
    assert torch.equal(kept, said)
    assert not torch.equal(kept, policy())
    assert not kept.requires_grad
