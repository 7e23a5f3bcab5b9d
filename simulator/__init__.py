"""A discrete-event model of asynchronous rollout and training, and small models that learn in it.

eventlog, ledger, rules, theory: pure records, decisions and closed forms. world: lengths and service
times. pipeline: SimPy processes. lab: small models that sample and learn inside the schedule.
studies: grids of runs and their pre-registered hypotheses, as data.
"""
