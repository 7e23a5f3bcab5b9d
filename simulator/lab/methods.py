"""An estimator and what its authors do beside the loss, by the name that a configuration may use.

The math never sees these names. Every composition of `algorithms.catalogue` is here under its own; the rest
are SAO's ablations and the stabilisers, each with one part exchanged.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, Self, final

from jaxtyping import Float, Float64
from torch import Tensor, zeros
from torch.optim import Optimizer

from algorithms import catalogue
from algorithms.advantage import whitened
from algorithms.baseline import RewardHistory, shared
from algorithms.cispo import cispo
from algorithms.critic import CriticRecipe, nothing
from algorithms.estimator import Estimator
from algorithms.gae import length_adaptive
from algorithms.grpo import grpo
from algorithms.gspo import gspo
from algorithms.m2po import m2po
from algorithms.ratio import per_token
from algorithms.rollout import Batch
from algorithms.sao import sao, sao_running_mean
from algorithms.spo import Tally, ValueTracker, spo
from algorithms.stabilise.gac import Controlled, Gradient, align
from algorithms.stabilise.reset import emptied
from algorithms.stabilise.vcpo import learning_rate_factor, least_variance_advantages
from algorithms.tba import tba
from algorithms.through_observations import step_through_observation_gae
from algorithms.trust import double_sided_mask_undetached
from algorithms.vapo import vapo
from algorithms.vcpo import vcpo


class Baseline(Protocol):
    """What earlier rollouts earned; an explicit value that grows with every batch."""

    def baselines(self, prompt_ids: Any, /) -> Float[Tensor, " B"]: ...

    def extended(self, batch: Batch, /) -> Self: ...

    def state(self) -> dict[int, tuple[float, ...]]:
        """What it remembers, by prompt, for a checkpoint."""

    def recalled(self, state: Mapping[int, Sequence[float]], /) -> Self: ...


Control = Callable[[Gradient, Gradient | None, Float64[Tensor, " 3"]], Controlled]
"""(gradient, the previous one, their inner products) -> what the optimizer gets."""


AdvantageByNorm = Callable[[Batch, Float64[Tensor, " B"]], Float[Tensor, "B T"]]
"""(whole batch, squared length of each rollout's score gradient) -> advantages."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How one arm learns."""

    estimator: Estimator
    baseline: Baseline | None = None
    """Fills `Batch.baselines` before it sees the batch."""
    control: Control | None = None
    """Shapes each gradient."""
    advantage: AdvantageByNorm | None = None
    """In place of the estimator's own."""
    learning_rate_factor: Callable[[Batch], float] | None = None
    """Scales the learning rate of each update."""
    reads_reference: bool = False
    """Its advantages read the starting policy's log-probs; penalties always may."""
    after_push: Callable[[Optimizer], None] | None = None
    """Called once engines hold new weights."""

    @property
    def needs_reference(self) -> bool:
        """Must a batch be scored under the starting policy? Penalties always may read it."""
        return self.reads_reference or bool(self.estimator.regularisers)


def forget_moments(optimizer: Optimizer) -> None:
    """GLM-5's reset after a push."""
    optimizer.load_state_dict(emptied(optimizer.state_dict()))


def gac(gradient: Gradient, previous: Gradient | None, products: Float64[Tensor, " 3"]) -> Controlled:
    """Gradient Alignment Control at its default thresholds."""
    return align(gradient, previous, products=products)


@final
@dataclass(frozen=True, slots=True)
class Remembered:
    """A running mean of the last rewards."""

    history: RewardHistory

    def baselines(self, prompt_ids: Any, /) -> Float[Tensor, " B"]:
        return self.history.baselines(prompt_ids)

    def extended(self, batch: Batch, /) -> Remembered:
        return Remembered(self.history.extended(batch))

    def state(self) -> dict[int, tuple[float, ...]]:
        return dict(self.history.rewards)

    def recalled(self, state: Mapping[int, Sequence[float]], /) -> Remembered:
        rewards = {prompt: tuple(past) for prompt, past in state.items()}
        return Remembered(dataclasses.replace(self.history, rewards=rewards))


@final
@dataclass(frozen=True, slots=True)
class Tracked:
    """SPO's tracker, taking the policy not to have moved since a prompt's last visit.

    *Choice*: its drift is measured on the rollout of that visit, which nobody keeps here; so it forgets as
    slowly as it may.
    """

    tracker: ValueTracker

    def baselines(self, prompt_ids: Any, /) -> Float[Tensor, " B"]:
        return self.tracker.baselines(prompt_ids)

    def extended(self, batch: Batch, /) -> Tracked:
        return Tracked(self.tracker.extended(batch, zeros(len(batch.group_ids))))

    def state(self) -> dict[int, tuple[float, ...]]:
        return {prompt: tuple(tally) for prompt, tally in self.tracker.tallies.items()}

    def recalled(self, state: Mapping[int, Sequence[float]], /) -> Tracked:
        tallies = {prompt: Tally(*tally) for prompt, tally in state.items()}
        return Tracked(dataclasses.replace(self.tracker, tallies=tallies))


def plain(make: Callable[..., Estimator], **options: Any) -> Method:
    """An estimator, and nothing beside its loss."""
    return Method(estimator=make(**options))


def gac_grpo(**options: Any) -> Method:
    """GRPO as published, its gradients under Gradient Alignment Control."""
    return Method(estimator=grpo(**options), control=gac)


def whole_vcpo(*, cap: float = 8.0, **options: Any) -> Method:
    """VCPO: its loss, its least-variance baseline, and its learning rate by effective sample size."""

    def advantage(batch: Batch, squared_norms: Float64[Tensor, " B"]) -> Float[Tensor, "B T"]:
        assert batch.old_log_probs is not None  # the learner scores every batch
        log_ratio = per_token(batch.old_log_probs, batch).where(batch.action_mask, 0.0)
        # The weights that the gradient is multiplied with, so truncated as the loss truncates them.
        log_weights = log_ratio.double().sum(-1).clamp(max=math.log(cap))
        return least_variance_advantages(batch, log_weights, squared_norms)

    return Method(
        estimator=vcpo(cap=cap, **options), advantage=advantage, learning_rate_factor=learning_rate_factor
    )


def mean_baseline_vcpo(**options: Any) -> Method:
    """VCPO with the group's mean for a baseline: its learning rate alone."""
    return Method(estimator=vcpo(**options), learning_rate_factor=learning_rate_factor)


def grpo_reset(**options: Any) -> Method:
    """GRPO as published, its optimizer emptied after every push, as in GLM-5."""
    return Method(estimator=grpo(**options), after_push=forget_moments)


def tba_from_start(**options: Any) -> Method:
    """TBA; its reference is the starting policy."""
    return Method(estimator=tba(**options), reads_reference=True)


def running_mean(*, window: int, key: Callable[[int], int] | None = None, **options: Any) -> Method:
    """SAO without a critic: a running mean of earlier rewards, of each prompt unless `key` says otherwise."""
    history = RewardHistory(window=window) if key is None else RewardHistory(window=window, key=key)
    return Method(estimator=sao_running_mean(**options), baseline=Remembered(history))


def tracked_spo(**options: Any) -> Method:
    """SPO with its tracker."""
    return Method(estimator=spo(**options), baseline=Tracked(ValueTracker()))


def sao_with(recipe: Mapping[str, Any], **options: Any) -> Method:
    """SAO with some fields of its critic's recipe exchanged."""
    return Method(estimator=sao(critic=dataclasses.replace(CriticRecipe(), **recipe), **options))


def stepping_sao(*, alpha: float = 1.5, **options: Any) -> Method:
    """SAO whose advantages step through observations; its lambda is still that of the action tokens."""
    advantage = partial(step_through_observation_gae, lam=length_adaptive(alpha))
    return Method(estimator=dataclasses.replace(sao(alpha=alpha, **options), advantage=advantage))


METHODS: Final[Mapping[str, Callable[..., Method]]] = {
    **{name: partial(plain, make) for name, make in catalogue.by_name().items()},
    "spo": tracked_spo,
    "tba": tba_from_start,
    "vcpo": whole_vcpo,
    "vcpo_mean_baseline": mean_baseline_vcpo,
    # The ratio to pi_old is 1 at the only update of a batch, however old that is: these see the lag.
    "gspo_behaviour": partial(plain, gspo, log_ratio=per_token),
    "cispo_behaviour": partial(plain, cispo, log_ratio=per_token),
    "m2po_behaviour": partial(plain, m2po, log_ratio=per_token),
    "grpo_gac": gac_grpo,
    "grpo_reset": grpo_reset,
    "sao_running_mean": partial(running_mean, window=8),
    "sao_running_mean_128": partial(running_mean, window=128, key=shared),
    "sao_full_critic": partial(sao_with, {"frozen": nothing}),
    "sao_values_after": partial(sao_with, {"value_when": "after"}),
    "sao_whitened": partial(plain, sao, normalise=whitened),
    "sao_undetached": partial(plain, sao, trust=double_sided_mask_undetached),
    "sao_no_warm_up": partial(sao_with, {"critic_only_updates": 0}),
    "sao_rate_warm_up": partial(sao_with, {"critic_only_updates": 0, "learning_rate_warmup_updates": 10}),
    "sao_alpha_0.5": partial(plain, sao, alpha=0.5),
    "sao_alpha_5": partial(plain, sao, alpha=5.0),
    "sao_through_observations": stepping_sao,
    # VAPO's own alpha refuses the short responses of small worlds.
    "vapo_alpha_1.5": partial(plain, vapo, alpha=1.5),
}
"""By name; options (`eps_low`, `eps_high`) reach the composition."""
