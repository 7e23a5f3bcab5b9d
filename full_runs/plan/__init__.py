"""What would a full run take and give, before it is started? `policylag full CONFIG --dry-run`.

architecture                   parameters of a model
trainer_memory, engine_memory  bytes of one GPU
fits                           do they fit
times                          seconds on paper
expected                       the same configuration simulated with them
dry_run, words                 all of it, answered; as text and JSON
processors, processors_words   the same without GPUs, with measured times
missing                        what keeps a run from starting

None of it has been compared with a run on GPUs: none has been executed so far.
"""
