"""Off-policy policy-gradient estimators as small composable functions.

rollout: the two records. likelihood: log-probs of sampled tokens.
ratio, trust, advantage (with gae and baseline), aggregate: the four choices.
estimator: their composition. grpo, sao: sentences made of them. critic: the value model's recipe.
diagnostics: what the update saw.
"""
