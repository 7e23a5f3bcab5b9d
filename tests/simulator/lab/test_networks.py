import torch

from simulator.lab.modular_addition import Questions
from simulator.lab.networks import TokenCritic, TokenPolicy


def networks() -> tuple[TokenPolicy, TokenCritic]:
    generator = torch.Generator().manual_seed(0)
    policy = TokenPolicy(modulus=10, hidden=16, generator=generator)
    return policy, TokenCritic(policy, generator=generator)


def questions() -> Questions:
    generator = torch.Generator().manual_seed(1)
    return Questions(*(torch.randint(0, 10, (4, 6), generator=generator) for _ in range(2)))


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


def test_a_value_never_sees_its_own_answer_or_a_later_one() -> None:
    _, critic = networks()
    with torch.no_grad():  # a head of zeros would hide everything
        critic.head.copy_(torch.randn(16, generator=torch.Generator().manual_seed(2)))
    asked, answers = questions(), torch.zeros(4, 6, dtype=torch.long)
    for t in range(6):
        changed = answers.clone()
        changed[:, t:] = 7
        before, after = critic(asked, answers), critic(asked, changed)
        torch.testing.assert_close(before[:, : t + 1], after[:, : t + 1], rtol=0, atol=0)
        if t < 5:
            assert (before[:, t + 1 :] != after[:, t + 1 :]).all()


def test_the_critic_starts_from_the_policys_weights_and_at_value_zero() -> None:
    policy, critic = networks()
    assert torch.equal(critic.pair, policy.first)
    assert torch.equal(critic.answered_pair, policy.first)
    assert (critic(questions(), torch.zeros(4, 6, dtype=torch.long)) == 0).all()


def test_a_snapshot_does_not_follow_the_policy() -> None:
    policy, _ = networks()
    kept, said = policy.snapshot(), policy().detach().clone()
    with torch.no_grad():
        policy.first.mul_(2.0)
    assert torch.equal(kept, said)
    assert not torch.equal(kept, policy())
    assert not kept.requires_grad
