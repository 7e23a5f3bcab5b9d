"""A discrete-event model of asynchronous rollout and training, and small models that learn in it.

eventlog, ledger, rules, theory: pure records, decisions and closed forms. systems: the rules of systems in
use, as configurations. world: lengths, episodes, speeds, failures. pipeline: the timeline, on SimPy's
clock. validation: does it meet theory and published runs? planner: how to split machines. exact: estimators
on worlds that can be listed. lab: small models that sample and learn inside the schedule. studies: grids of
runs and their pre-registered hypotheses, as data. config, experiments: what is simulated, by fields and by
name.
"""
