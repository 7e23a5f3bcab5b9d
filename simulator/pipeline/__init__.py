"""The timeline: SimPy processes, one a resource, that read like what they draw.

rollout: what moves. weights: which version made which token? admission: the door before the slots.
engine: slots that decode. buffer: group barrier and queue. trainer: updates. push: new weights reach the
engines. instant: what comes first when times are equal? workload: what a rollout is. journal: what is
written into the log. pipeline: the wiring, and `run`.
"""
