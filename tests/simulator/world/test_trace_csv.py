"""A user's CSV: what is read, what is refused, and what is said about it."""

import gzip

import numpy as np
import pytest

from simulator.config import PipelineConfig, length_law
from simulator.world.lengths import Trace
from simulator.world.trace_csv import read_lengths, why_not_tokens


@pytest.fixture
def csv(tmp_path):
    def write(text, name="lengths.csv"):
        path = tmp_path / name
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


@pytest.mark.parametrize("name", ["lengths.csv", "lengths.csv.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_plain_and_zipped_with_any_line_ends(csv, name, end):
    trace = read_lengths(csv(end.join(["tokens", "10", "20", "20", ""]), name))
    assert trace.law.values_tokens.tolist() == [10, 20, 20]
    assert (trace.rows, trace.refused, trace.weights_column) == (3, (), None)


def test_any_column_and_a_byte_order_mark(csv):
    path = csv("\ufeffGeneratedTokens,ContextTokens\n44,374\n109,396\n")
    assert read_lengths(path, "GeneratedTokens").law.values_tokens.tolist() == [44, 109]


def test_a_column_called_prob_is_taken_as_weights(csv):
    path = csv("tokens,prob,share\n10,0.75,1\n30,0.25,9\n")
    found = read_lengths(path)
    assert found.weights_column == "prob"
    assert found.law.quantile(np.array([0.0, 0.74, 0.76])).tolist() == [10, 10, 30]
    assert read_lengths(path, weights_column="share").law.quantile(np.array([0.05, 0.15])).tolist() == [
        10,
        30,
    ]


def test_a_cap_clips(csv):
    law = read_lengths(csv("tokens\n10\n500\n"), max_tokens=100).law
    assert law.quantile(np.array([0.1, 0.9])).tolist() == [10, 100]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("abc", "not a number"),
        ("nan", "NaN"),
        ("inf", "infinite"),
        ("-inf", "infinite"),
        ("-3", "negative"),
        ("0", "zero"),
        ("2.5", "not a whole number"),
        ("1e300", "too large"),
        ("", "missing"),
        ("  ", "missing"),
        (None, "missing"),
        ("12.0", None),
        ("1e3", None),
    ],
)
def test_why_a_value_is_no_length(value, reason):
    assert why_not_tokens(value) == reason


def test_refused_rows_are_reported_with_line_value_and_reason(csv):
    trace = read_lengths(csv("id,tokens\na,10\nb,-4\nc,oops\nd\ne,7\n"))
    assert trace.rows == 2
    assert [(row.line, row.value, row.reason) for row in trace.refused] == [
        (3, "-4", "negative"),
        (4, "oops", "not a number"),
        (5, None, "missing"),
    ]


def test_a_bad_weight_refuses_its_row(csv):
    trace = read_lengths(csv("tokens,prob\n10,0.5\n20,x\n30,-1\n"))
    assert trace.rows == 1
    assert {row.reason for row in trace.refused} == {"not a weight"}


def test_a_missing_column_names_file_column_and_columns(csv):
    with pytest.raises(
        ValueError, match=r"lengths.csv has no column 'tokens'; it has \['length', 'reward'\]"
    ):
        read_lengths(csv("length,reward\n1,0\n"))
    with pytest.raises(ValueError, match="no column 'weight'"):
        read_lengths(csv("tokens\n1\n"), weights_column="weight")


@pytest.mark.parametrize("text", ["", "tokens\n"])
def test_an_empty_file_is_an_error(csv, text):
    with pytest.raises(ValueError, match=r"lengths.csv"):
        read_lengths(csv(text))


def test_a_file_of_refused_rows_names_their_number_and_reasons(csv):
    with pytest.raises(
        ValueError, match=r"none of 2 rows.*line 2: '-1' is negative; line 3: 'x' is not a number"
    ):
        read_lengths(csv("tokens\n-1\nx\n"))


def test_weights_that_are_all_zero_are_an_error(csv):
    with pytest.raises(ValueError, match="all zero"):
        read_lengths(csv("tokens,prob\n10,0\n20,0\n"))


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_lengths(tmp_path / "nowhere.csv")


def test_a_configuration_reads_its_trace(csv):
    path = csv("n,prob\n10,1\n30,0\n")
    config = PipelineConfig(lengths=Trace(path=str(path), column="n", max_tokens=9))
    assert length_law(config.lengths).quantile(np.array([0.5])).tolist() == [9]
