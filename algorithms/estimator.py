"""An estimator is four choices: advantage, log-ratio, trust region, aggregate; some add a correction."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

from jaxtyping import Bool, Float, Int
from torch import Tensor

from algorithms.advantage import Advantage
from algorithms.aggregate import Aggregate
from algorithms.correction import Correction
from algorithms.critic import CriticRecipe
from algorithms.precision import at_least_single, widened
from algorithms.ratio import LogRatio
from algorithms.rollout import Batch
from algorithms.trust import TrustRegion

Regulariser: TypeAlias = Callable[[Float[Tensor, "B T"], Batch], Float[Tensor, "B T"]]
"""(log pi of the sampled tokens, batch) -> penalty of each token, to be minimised."""

Adapt: TypeAlias = Callable[["Estimator", Float[Tensor, "B T"], Batch, Float[Tensor, "B T"]], "Estimator"]
"""(estimator, log pi before this update, whole batch, its advantages) -> the estimator with bounds set."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """A policy-gradient estimator, ready to be differentiated.

    Use it in four lines, the same on a whole batch, on micro-batches and on ranks::

        advantages = estimator.advantage(batch)         # whole groups, before any split
        fixed = estimator.fixed(log_probs, batch, advantages)     # itself, but for a few
        total = fixed.total(batch)                      # all-reduce it, if there are ranks
        fixed.loss(log_probs, batch, advantages=advantages, total=total).backward()

    For a micro-batch pass `batch.rows(i)`, `advantages[i]` and the same `total`; gradients add up.
    """

    advantage: Advantage
    log_ratio: LogRatio
    trust: TrustRegion
    aggregate: Aggregate
    regularisers: tuple[Regulariser, ...] = ()
    critic: CriticRecipe | None = None
    counted: Callable[[Float[Tensor, "B T"]], Bool[Tensor, "B T"]] | None = None
    """Log-ratio -> tokens that the divisor counts; None counts every action token. With
    `trust.inside(...)` the mean runs over kept tokens only, so a stale batch takes full-size steps."""
    correction: Correction | None = None
    """Detached weight of each token, which multiplies its surrogate and no regulariser; zero drops the
    token from the numerator. The divisor, a rollout's own length and the advantages count it still."""
    kept_only: bool = False
    """True: the divisor leaves out tokens (and rollouts) that `correction` dropped. A rollout's own
    length, by which `sequence_mean` divides, stays as it is."""
    adapt: Adapt | None = None
    """Sets what depends on the whole batch: a threshold searched over its tokens (M2PO, BAPO), a mean weight.
    Until `fixed` has called it there is no loss: a shard would search for a bound of its own."""

    def fixed(
        self, log_probs: Float[Tensor, "B T"], batch: Batch, advantages: Float[Tensor, "B T"]
    ) -> Estimator:
        """The estimator with every bound a constant; itself, unless `adapt` is set.

        Args:
            log_probs: log pi before this update; no gradient passes.
            batch: the *whole* batch of this update (gathered, if there are ranks).
            advantages: `advantage(batch)`.
        """
        if self.adapt is None:
            return self
        mask = batch.action_mask
        log_probs = at_least_single(log_probs.detach()).where(mask, 0.0)
        settled = self.adapt(self, log_probs, widened(batch), at_least_single(advantages).where(mask, 0.0))
        return dataclasses.replace(settled, adapt=None)

    def total(self, batch: Batch, log_probs: Float[Tensor, "B T"] | None = None) -> Int[Tensor, ""]:
        """The divisor's count, over the rows of `batch`; the sum over ranks belongs in `loss`.

        Args:
            batch: the whole batch, or this rank's share of it.
            log_probs: log pi before this update; read only if `counted` is set.

        Raises:
            ValueError: `counted` is set and `log_probs` absent, or `adapt` is set.
        """
        self._refuse_unfixed()
        batch = widened(batch)
        kept = batch.action_mask
        if self.correction is not None and self.kept_only:
            kept = kept & (self.correction(batch) > 0)
        if self.counted is None:
            return self.aggregate.count(kept)
        if log_probs is None:
            raise ValueError("this estimator counts kept tokens only: total() needs log_probs, got None")
        return self.aggregate.count(kept & self.counted(self.log_ratio(log_probs.detach(), batch)))

    def surrogate(
        self, log_probs: Float[Tensor, "B T"], batch: Batch, advantages: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        """What each token contributes, to be maximised; exactly zero off the action tokens.

        Args:
            log_probs: log pi of the sampled tokens under the weights being trained, in nats and at
                the sampling temperature; the only argument through which gradient flows.
            advantages: the rows of `advantage(whole_batch)` that belong to `batch`.

        Raises:
            ValueError: `log_probs` or `advantages` has another shape than the batch, or `adapt` is set.
        """
        return self._terms(log_probs, batch, advantages).where(batch.action_mask, 0.0)

    def _terms(
        self, log_probs: Float[Tensor, "B T"], batch: Batch, advantages: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        """`surrogate`, but for what a careless trust region leaves off the action tokens."""
        self._refuse_unfixed()
        mask = batch.action_mask
        for name, tensor in (("log_probs", log_probs), ("advantages", advantages)):
            if tensor.shape != mask.shape:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}, action_mask {tuple(mask.shape)}")
        # Mask every input before any arithmetic, so that padding may hold anything; widen it, too, so
        # that no function of the estimator's meets half precision.
        batch = widened(batch)
        log_probs = at_least_single(log_probs).where(mask, 0.0)
        advantages = at_least_single(advantages.detach()).where(mask, 0.0)
        terms = self.trust(self.log_ratio(log_probs, batch), advantages, log_probs)
        if self.correction is not None:
            weight = self.correction(batch).detach()
            # Select before multiplying: zero times an infinite log-prob would be NaN.
            terms = weight * terms.where(weight > 0, 0.0)
        return terms

    def loss(
        self,
        log_probs: Float[Tensor, "B T"],
        batch: Batch,
        *,
        advantages: Float[Tensor, "B T"],
        total: Int[Tensor, ""],
    ) -> Float[Tensor, ""]:
        """Scalar whose gradient is the negated policy-gradient estimate; in single precision at least.

        Args:
            log_probs: as for `surrogate`.
            batch: the rollouts of this shard or micro-batch.
            advantages: the same rows of `advantage(whole_batch)`.
            total: `total` of the whole batch, so that shards add up.

        Raises:
            ValueError: as `surrogate`.
        """
        # Once, for all terms: gradients that meet behind the cast would be added in half precision.
        log_probs, batch = at_least_single(log_probs), widened(batch)
        # `reduce` masks what it sums, so it is not done twice.
        terms = self._terms(log_probs, batch, advantages)
        if not self.regularisers:
            # From zero, or a loss of zero would be written -0.0.
            return 0.0 - self.aggregate.reduce(terms, batch.action_mask, total)
        terms = -terms
        for penalty in self.regularisers:
            terms = terms + penalty(log_probs.where(batch.action_mask, 0.0), batch)
        return self.aggregate.reduce(terms, batch.action_mask, total)

    def _refuse_unfixed(self) -> None:
        if self.adapt is not None:
            raise ValueError(
                "this estimator's bounds come from the whole batch: call fixed() and use its result"
            )
