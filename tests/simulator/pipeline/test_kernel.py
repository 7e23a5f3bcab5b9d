"""What the pipeline relies on in SimPy, and the order of one instant."""

import math

import pytest
import simpy

from simulator.pipeline.instant import ADMISSION, COMPLETION, PUBLISH, Turn, nothing_else_now


@pytest.mark.parametrize("created", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_completions_then_publishes_then_admissions_whatever_was_created_first(created):
    env = simpy.Environment()
    order = []

    def at_one(precedence):
        yield env.timeout(1.0)
        if precedence != COMPLETION:
            yield Turn(env, precedence)
        order.append(precedence)

    kinds = (COMPLETION, PUBLISH, ADMISSION)
    for i in created:
        env.process(at_one(kinds[i]))
    env.run()
    assert order == [COMPLETION, PUBLISH, ADMISSION]


def test_an_instant_is_over_when_the_next_event_is_later():
    env = simpy.Environment()
    seen = []

    for _ in range(2):
        env.timeout(1.0).callbacks.append(lambda _event: seen.append(nothing_else_now(env)))
    env.run()
    assert seen == [False, True]


@pytest.mark.parametrize("cancels", [True, False])
def test_a_get_that_was_given_up_must_be_cancelled(cancels):
    # D01: otherwise it swallows the next item. The pipeline has no stores: a waiter holds its own event.
    env = simpy.Environment()
    store = simpy.Store(env)
    got = []

    def consumer():
        first = store.get()
        yield first | env.timeout(1.0)
        if cancels:
            first.cancel()
        yield env.timeout(1.0)
        second = store.get()
        result = yield second | env.timeout(10.0)
        got.append(result.todict().get(second))

    def producer():
        yield env.timeout(1.5)
        yield store.put("item")

    env.process(consumer())
    env.process(producer())
    env.run()
    assert got == (["item"] if cancels else [None])


def test_simpy_runs_a_time_that_is_not_a_number():
    # D07: which is why configurations refuse it
    env = simpy.Environment()
    env.timeout(math.nan)
    env.step()
    assert math.isnan(env.now)
