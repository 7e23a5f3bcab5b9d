"""Off-policy policy-gradient estimators as small composable functions.

rollout: the two records. likelihood: log-probs of sampled tokens.
ratio, trust, advantage (with gae and baseline), aggregate: the four choices.
estimator: their composition. correction: weights between engine and trainer. grpo, sao, tis, gspo, ...:
sentences made of them, listed in catalogue. critic: the value model's recipe. conformance: the laws.
diagnostics: what the update saw.
"""
