"""Who decides what a real run does next: the simulator's rules, applied to rollouts that engines really make.

records: what is known of a rollout. buffer: groups, queue, counts; no clock, no network. engines: servers
that are chosen, lost, started again. rollouts: keeps so many in flight. training: takes batches, trains,
pushes, keeps checkpoints. measure: plays held-out prompts. versions: folders of weights and checkpoints. journal:
facts as they happen, and the event log made of them. resume: what they leave to a run that was killed. stalls: what
a push took from slots. course: all of these, wired.
"""
