"""Off-policy policy-gradient estimators as small composable functions.

rollout: the two records. ratio, trust, advantage (with gae), aggregate: the four choices.
estimator: their composition. grpo, sao: sentences made of them. critic: the value model's recipe.
diagnostics: what the update saw.
"""
