"""What a log may do to its reader: broken lines, encodings, nothing, huge numbers, much of it."""

import gzip
import json
import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from analysis.audit.examine import examine
from analysis.audit.limits import Limits
from analysis.audit.load import load
from analysis.audit.reading.identities import MAX_HASHES, Identities
from analysis.audit.reading.numbers import number, numbers_of
from tests.analysis.audit.logs import FORMATS, healthy, write_jsonl


def test_broken_lines_are_counted_and_the_rest_is_read(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(
        'a line of a console\n{"step": 1, "reward": 0.5}\n{"step": 2, "rew\n\n[1, 2]\n"text"\n'
        '{"step": 3, "reward": 0.7}\n{"step": 4, "reward": 0.'
    )
    log = load([path])
    assert log.updates["update"].tolist() == [1, 3]
    assert (log.sources[0].records, log.sources[0].broken, log.sources[0].first_broken) == (2, 6, 1)


def test_rows_of_another_length_are_broken(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("step,reward,entropy\n1,0.5,1\n2,0.5\n3,0.5,1,9\n4,0.5,1\n")
    log = load([path])
    assert log.updates["update"].tolist() == [1, 4]
    assert (log.sources[0].broken, log.sources[0].first_broken) == (2, 3)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings_and_ends_of_lines(tmp_path, encoding, end):
    path = tmp_path / "log.jsonl"
    lines = ['{"step": 1, "reward": 0.5, "größe": 1}', '{"step": 2, "reward": 0.25}']
    path.write_bytes(end.join(lines).encode(encoding))
    assert load([path]).updates["reward_mean"].tolist() == [0.5, 0.25]


def test_bytes_of_no_encoding_and_nulls_cost_nothing_else(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(
        b'{"step": 1, "reward": 0.5, "text": "\xff\xfe\x80"}\n\x00\x00{"step": 2, "reward": 1}\n'
    )
    assert load([path]).updates["reward_mean"].tolist() == [0.5, 1]


def test_gzip_is_seen_by_its_content(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(gzip.compress(b'{"step": 1, "reward": 0.5}\n'))
    assert load([path]).updates["reward_mean"].tolist() == [0.5]


def test_a_packed_file_that_breaks_off_gives_what_is_before(tmp_path):
    path = tmp_path / "log.jsonl"
    rng = np.random.default_rng(0)
    lines = [f'{{"step": {i}, "reward": {rng.random()}}}\n' for i in range(4000)]
    path.write_bytes(gzip.compress("".join(lines).encode())[:-20_000])
    log = load([path])
    assert 0 < len(log.updates) < 4000
    assert log.sources[0].broken >= 1


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"\xef\xbb\xbf", b"{}\n", b"[]", b'{"log_history": []}', b"step,reward\n"]
)
def test_nothing_is_refused_in_words(tmp_path, content):
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="log"):
        load([path])


@pytest.mark.parametrize(
    "content", [b"PAR1 and no more", b"\x7fELF\x00\x01", b"one word\n", b"\x1f\x8bnot gzip"]
)
def test_what_is_no_log_is_refused(tmp_path, content):
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises((ValueError, OSError)):
        load([path])


def test_numbers_beyond_every_range(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(
        f'{{"step": 1, "reward": {"9" * 5000}, "loss": 1e999, "grad_norm": "NaN"}}\n'
        '{"step": 2, "reward": -1e28, "loss": -1e28, "grad_norm": 1e28}\n'
        f'{{"step": 1{"0" * 400}, "reward": 1}}\n'
    )
    log = load([path])
    assert log.updates["update"].tolist() == [1, 2]
    assert {name: spell.count for name, spell in log.strange.not_finite.items()} == {
        "reward_mean": 1,
        "loss": 1,
        "grad_norm": 1,
    }


@pytest.mark.parametrize("scale", [1e29, 1e150, 1e303, -1e300, 0.0])
def test_every_question_can_be_asked_of_absurd_numbers(tmp_path, scale):
    series = {name: values if name == "update" else values * scale for name, values in healthy(1).items()}
    audit = examine(load([FORMATS["plain"](tmp_path, series)]), Limits(lag_bound=4))
    assert audit.worst == "problem" or scale == 0


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (1, 1.0),
        (True, 1.0),
        (" 1e-3 ", 1e-3),
        ("-inf", -math.inf),
        ("", None),
        ("1_000", None),
        (None, None),
        ([1], None),
    ],
)
def test_what_is_a_number(value, meant):
    assert number(value) == meant


def test_whole_numbers_beyond_a_float_are_infinite():
    assert number(10**400) == math.inf
    assert number(-(10**400)) == -math.inf
    assert numbers_of([1, None, "x"]) is None
    assert numbers_of([]) is None


def test_a_log_without_a_known_name_is_refused_and_its_names_said(tmp_path):
    path = write_jsonl(tmp_path / "log.jsonl", [{"step": i, "mine": 0.5, "text": "a"} for i in range(5)])
    with pytest.raises(ValueError, match=r"no name that is known here: mine; .*--alias"):
        load([path])
    assert load([path], {"mine": "entropy"}).updates["entropy"].tolist() == [0.5] * 5


@pytest.mark.parametrize("chunk", [2, 7, 100, 4096])
@pytest.mark.parametrize("form", FORMATS)
def test_the_result_does_not_depend_on_the_chunk(tmp_path, form, chunk):
    path = FORMATS[form](tmp_path, healthy(5, updates=30))
    assert_frame_equal(load([path], chunk=chunk).updates, load([path]).updates)


@pytest.mark.parametrize("chunk", [64, 64 * 3, 64 * 1000])
def test_nor_does_that_of_parquet(tmp_path, chunk):
    path = tmp_path / "c.parquet"
    n = 500
    pd.DataFrame(
        {
            "step": np.arange(n) // 8,
            "prompt": [f"p{i // 4}" for i in range(n)],
            "completion": [f"c{i}" for i in range(n)],
            "score": np.arange(n) % 3,
        }
    ).to_parquet(path, row_group_size=37)
    assert_frame_equal(load([path], chunk=chunk).updates, load([path]).updates)


def peak_bytes(path) -> int:
    load([path])  # what is imported and cached on the first call is not the file's
    tracemalloc.start()
    load([path])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_a_file_of_rollouts(tmp_path):
    """Twice the text, the same number of updates: about the same memory, far below either file."""

    def written(name, rollouts):
        path = tmp_path / name
        with path.open("w") as stream:
            for i in range(rollouts):
                record = {
                    "input": f"p{i // 8}",
                    "output": f"{i} " + "word " * 400,
                    "score": i % 2,
                    "step": i % 40,
                }
                print(json.dumps(record), file=stream)
        return path

    small, large = written("small", 600), written("large", 1800)
    assert large.stat().st_size > 3_500_000
    bound = 1_500_000
    assert peak_bytes(small) < bound
    assert peak_bytes(large) < bound


def test_memory_does_not_grow_with_unknown_columns(tmp_path):
    path = tmp_path / "log.jsonl"
    with path.open("w") as stream:
        for i in range(400):
            row = {f"mine/{j}": i * 0.1 + j for j in range(200)}
            print(json.dumps({"step": i, "data": {"actor/entropy": 1, **row}}), file=stream)
    assert path.stat().st_size > 1_500_000
    # The first records, from which names are read, are what is held at once.
    assert peak_bytes(path) < 2_000_000


def test_identities_are_a_bounded_sample():
    identities = Identities()
    for update in (1.0, 2.0):
        for i in range(MAX_HASHES + 1000):
            identities.add(i, update)
    assert len(identities.by_hash) <= MAX_HASHES
    assert identities.again / identities.sampled == pytest.approx(0.5, abs=0.03)
