"""A system's record holds its function's settings, no more, no fewer, with the same defaults."""

import inspect
from typing import get_args

import pytest

from simulator.rules.staleness import Staleness
from simulator.rules.systems.shape import Shape
from simulator.systems.every import AnySystem

RECORDS = get_args(AnySystem)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_fields_are_the_functions_arguments(record):
    settings = {name: field.default for name, field in record.model_fields.items() if name != "kind"}
    arguments = list(inspect.signature(record.make).parameters.values())[1:]
    # A selection is a function, which no file can name.
    assert settings == {p.name: p.default for p in arguments if not callable(p.default)}
    made = record().rule(Shape(batch_rollouts=8, slots=64))
    assert isinstance(made, Staleness)
    assert record.model_fields["kind"].default == record.make.__name__


def test_no_two_share_a_name():
    kinds = [record.model_fields["kind"].default for record in RECORDS]
    assert len(set(kinds)) == len(kinds) == 24
