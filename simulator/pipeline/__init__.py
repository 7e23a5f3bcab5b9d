"""The timeline, on SimPy's clock.

What moves: rollout (a table of columns), weights (which version made which token), workload, course. Where
it goes: admission (the door before the slots), engine and loaded (slots that decode), fleet (all engines),
buffer (group barrier and queue), trainer, push, discards. Besides decoding: environments and their door.
Besides training: validation. What goes wrong: failing, losses, outages, stalls, copies, watchdog. What is
kept: journal, rows, episode_rows, occupancy. instant: what comes first when times are equal. pipeline: the
wiring, and `run`.
"""
