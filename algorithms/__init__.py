"""Off-policy policy-gradient estimators as small composable functions; README.md here has the equation.

rollout: the two records. likelihood: log-probs of sampled tokens. precision: what they are computed in.
ratio, trust, weighting, advantage (with gae, steps, actions, baseline), aggregate: the four choices.
estimator: their composition. correction, rejection: weights between engine and trainer; mismatch: that part
of them that is not staleness. penalty, kl, entropy: regularisers. dropping: groups that lost members.
grpo, sao, tis, gspo, ...: sentences made of them, listed in catalogue and tabled by describe.
critic: the value model's recipe. stabilise: what acts on the update. conformance: the laws.
diagnostics: what the update saw.
"""
