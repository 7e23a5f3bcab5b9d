"""How many bytes does a piece of work hold at once, beyond what lay there before?"""

from __future__ import annotations

from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile


def peak_bytes(work: Callable[[], object]) -> int:
    """The largest number of bytes alive at once that torch's CPU allocator handed out during `work`.

    Every allocation and every release is an event of the profiler, those inside an operator too, which a
    dispatch mode never sees; so the running sum is exact and not sampled. Memory from before does not count.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        work()
    assert recorded.profiler is not None
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak
