"""Who decides what a real run does next: the simulator's rules, applied to rollouts that engines really make.

records, buffer      what is known of a rollout; groups, queue, counts: no clock, no network
engines, rollouts    servers that are chosen, lost, started again; so many rollouts kept in flight
training, versions   batches, updates, pushes, checkpoints; the folders of the latter two
measure              held-out prompts, played
journal, resume      facts as they happen, the event log made of them, what they leave to the next process
stalls               what a push took from slots
course               all of these, wired
"""
