"""Who decides what a real run does next: the simulator's rules, applied to rollouts that engines really make.

records: what is known of a rollout. buffer: groups, queue, counts; no clock, no network. engines: servers
that are chosen, lost, started again. rollouts: keeps so many in flight. training: takes batches, trains,
pushes. journal: facts as they happen, and the event log made of them. course: all of these, wired.
"""
