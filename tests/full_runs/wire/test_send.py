"""Tensors over real lines to other processes: all that is sent arrives, and one that dies, sleeps or never
comes keeps nobody else waiting."""

import json
import os
import re
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest
import torch

from full_runs.engine.layout import digest
from full_runs.wire.lines import over_gloo
from full_runs.wire.outline import Outline, as_update, check_agreed, from_bytes, of_update, to_bytes
from full_runs.wire.send import joined_lines, send
from tests.full_runs.wire import receiver

LOOPBACK = "127.0.0.1"
SHAPES = [[3, 2], [1], [500, 40], [7], [64, 64], [2, 2, 2]]
OUTLINES = [Outline(f"t{number}", "float32", tuple(shape)) for number, shape in enumerate(SHAPES)]
BEHAVIOUR = ["receives", "dies", "receives", "sleeps", "never comes"]


def tensors():
    draws = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=draws) for shape in SHAPES]


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """What the sender saw, and what each receiver wrote down."""
    folder = tmp_path_factory.mktemp("lines")
    opened = over_gloo([1] * len(BEHAVIOUR), LOOPBACK, 6.0, OUTLINES)
    script, root = str(Path(receiver.__file__)), str(Path(__file__).parents[3])
    others = [
        subprocess.Popen(
            [sys.executable, script, json.dumps(told), how, str(folder / str(place)), json.dumps(SHAPES)],
            env=os.environ | {"PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
        )
        for place, (told, how) in enumerate(zip(opened.told, BEHAVIOUR, strict=True))
        if how != "never comes"
    ]
    try:
        while len(list(folder.glob("*.ready"))) < len(others):
            assert all(other.poll() is None for other in others)
            time.sleep(0.05)
        lines, absent = joined_lines(opened)
        seen = {}
        sent = [(f"t{number}", tensor) for number, tensor in enumerate(tensors())]
        broken = send(iter(sent), lines, seen)
        left = set(lines)
        for line in lines.values():
            line.close()
        for other, how in zip(others, BEHAVIOUR, strict=False):
            if how == "receives":
                other.wait(30)
    finally:
        for other in others:
            other.kill()
            other.wait()
    got = {place: json.loads((folder / str(place)).read_text()) for place in (0, 2)}
    return {"got": got, "absent": absent, "broken": broken, "left": left, "seen": seen}


def test_what_is_sent_arrives_to_the_last_bit(ended):
    wanted = [digest(tensor) for tensor in tensors()]
    assert ended["got"] == {0: wanted, 2: wanted}
    assert list(ended["seen"].values()) == wanted


def test_one_that_dies_sleeps_or_never_comes_is_named_and_keeps_nobody_waiting(ended):
    assert ended["left"] == {0, 2}
    assert set(ended["absent"]) == {4}
    assert "did not join" in ended["absent"][4]
    assert set(ended["broken"]) == {1, 3}
    # What was on its way as one died is lost; the sender knows with it or with the next one.
    assert all(re.match(r"the line broke at t[345]: ", why) for why in ended["broken"].values())


class Slow:
    """A line whose tensors are on their way until they are waited for."""

    def __init__(self):
        self.sent, self.closed, self.breaks_at = [], False, None

    def send(self, tensor):
        if self.breaks_at == len(self.sent):
            raise RuntimeError("gone")
        self.sent.append(digest(tensor))
        return lambda: tensor.sum()

    def close(self):
        self.closed = True


def test_no_tensor_is_alive_when_the_next_one_is_gathered():
    """The law of memory: one whole tensor at a time, however large the model."""
    alive = []

    def gathered():
        for number in range(5):
            assert [each() for each in alive] == [None] * len(alive)
            tensor = torch.full((100,), float(number))
            alive.append(weakref.ref(tensor))
            yield "model.layers.0.self_attn.q_proj.weight".replace("0", str(number)), tensor
            del tensor

    assert send(gathered(), {0: Slow(), 1: Slow()}, {}) == {}
    assert len(alive) == 5


def test_weights_are_walked_through_to_their_end_without_any_line_left():
    """Other ranks walk along: a sender that stopped early would leave them waiting."""
    line, walked = Slow(), []
    line.breaks_at = 1

    def gathered():
        for number in range(4):
            walked.append(number)
            yield f"t{number}", torch.ones(2)

    seen, lines = {}, {7: line}
    assert send(gathered(), lines, seen) == {7: "the line broke at t1: gone"}
    assert (walked, lines, line.closed, len(line.sent)) == ([0, 1, 2, 3], {}, True, 1)
    assert len(seen) == 4


TWO = [Outline("b", "float32", (2, 3)), Outline("a", "bfloat16", (4,))]


def test_the_order_of_the_announcement_is_the_wires():
    said = as_update(TWO)
    assert said == {"names": ["b", "a"], "dtype_names": ["float32", "bfloat16"], "shapes": [[2, 3], [4]]}
    assert of_update(said) == TWO
    assert from_bytes(to_bytes(TWO)) == TWO


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (
            [TWO[0], Outline("a", "bfloat16", (5,))],
            r"tensor 2 that comes is a \(bfloat16, 4\), and expected is a",
        ),
        (
            [Outline("b", "float16", (2, 3)), TWO[1]],
            r"tensor 1 that comes is b \(float32, 2x3\), and .*float16",
        ),
        ([TWO[1], TWO[0]], "tensor 1 that comes is b .* expected is a"),
        ([TWO[0]], "2 tensors come, and 1 are expected: .* alone knows is a"),
        ([*TWO, Outline("c", "float32", ())], "2 tensors come, and 3 are expected: .* alone knows is c"),
        ([], "2 tensors come, and 0 are expected: .* alone knows is b"),
    ],
)
def test_what_comes_otherwise_than_expected_is_named(expected, said):
    check_agreed(TWO, list(TWO))
    with pytest.raises(ValueError, match=said):
        check_agreed(TWO, expected)
