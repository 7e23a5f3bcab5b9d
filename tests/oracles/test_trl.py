"""Losses and gradients of TRL 1.16, in float64. https://pypi.org/project/trl/.

Measured: 6e-17 at most, SAPO 4e-8. They bound no ratio before `exp`, so nothing here is far.
"""

import dataclasses
from typing import Any

import pytest
import torch

from algorithms.cispo import cispo
from algorithms.dapo import dapo
from algorithms.dr_grpo import dr_grpo
from algorithms.estimator import Estimator
from algorithms.grpo import grpo
from algorithms.gspo import gspo
from algorithms.sapo import sapo
from algorithms.vespo import vespo
from tests.laws.compositions import policy_near
from tests.oracles.peers import paired, peer
from tests.oracles.trl_loss import trl_loss

pytestmark = pytest.mark.oracles
trainer_class = peer("trl").GRPOTrainer

PAIRS: dict[str, tuple[Estimator, dict[str, Any]]] = {
    "grpo": (grpo(eps_high=0.2), {"loss_type": "grpo"}),
    "dapo": (dapo(), {"loss_type": "dapo", "high": 0.28}),
    "dr_grpo": (dr_grpo(tokens=11), {"loss_type": "dr_grpo", "tokens": 11}),
    "gspo": (gspo(), {"loss_type": "grpo", "level": "sequence", "low": 3e-4, "high": 4e-4}),
    # Their epsilon_high is the bound itself.
    "cispo": (cispo(eps_high=4.0), {"loss_type": "cispo", "high": 5.0}),
    "sapo": (sapo(), {"loss_type": "sapo"}),
    "vespo": (vespo(), {"loss_type": "vespo"}),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("distance", [0.0, 1e-4, 0.05, 0.5, 2.0])
def test_loss_and_gradient(name: str, seed: int, distance: float):
    ours, options = PAIRS[name]
    batch = paired(seed)
    # Against the engine, for what reads only the engine.
    batch = dataclasses.replace(batch, behaviour_log_probs=batch.old_log_probs)
    advantages = ours.advantage(batch)
    leaves = [policy_near(batch, distance, seed).requires_grad_() for _ in range(2)]
    loss = ours.loss(leaves[0], batch, advantages=advantages, total=ours.total(batch))
    # One advantage a rollout, read off any of its action tokens: the first.
    wanted = trl_loss(trainer_class, leaves[1], batch, advantages[:, 0], **options)
    # Their temperature of 1.05 is in single precision, whatever the rest is in.
    tolerance = {"rtol": 3e-7, "atol": 1e-7} if name == "sapo" else {"rtol": 1e-12, "atol": 1e-13}
    torch.testing.assert_close(loss, wanted, **tolerance)
    loss.backward()
    wanted.backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad, **tolerance)
