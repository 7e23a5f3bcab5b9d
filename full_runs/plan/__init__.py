"""What would a full run take and give, before it is started? `policylag full CONFIG --dry-run`.

architecture: parameters of a model. trainer_memory, engine_memory: bytes of one GPU. fits: do they fit.
times: seconds on paper. expected: the same configuration simulated with them. dry_run: all of it, answered.
words: as text and JSON. missing: what this machine has not.

None of it has been compared with a run on GPUs: none has been executed so far.
"""
