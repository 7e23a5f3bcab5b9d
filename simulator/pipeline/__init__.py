"""The timeline, on SimPy's clock.

What moves: rollout (a table of columns), views (what a workload sees of its rows), weights (which version
made which token), workload, course. Where it goes: admission_queue (who waits to be let in), admission (the
door before the slots), router (to which engine?), engine (slots that decode; fixed_speed, loaded: how fast;
loaded_clock, clock_record, by_age: what a loaded one remembers), engines (those of a configuration), fleet
(what happens next in any of them), buffer (group barrier), group_queue (what makes a batch?), unfinished
(what is in no queue), trainer, push, discards. Besides decoding: environments and their door. Besides
training: validation. What goes wrong: failing, losses, outages, stalls, copies, watchdog. What is kept:
counting (what rules see), journal, rows, pieces, episode_rows, occupancy, result. instant: what comes first
when times are equal. wiring: all of it, connected. pipeline: `run`.
"""
