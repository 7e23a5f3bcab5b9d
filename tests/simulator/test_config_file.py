from __future__ import annotations

from pathlib import Path

import pytest

from simulator.config_file import read_fields


def test_a_byte_order_mark_and_other_line_ends_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbfslots = 3\r\n[staleness]\r\neta_batches = 1\r\n")
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"slots": 3,\r\n"staleness": {"eta_batches": 1}}')
    for name in ("a.toml", "a.json"):
        assert read_fields(tmp_path / name) == {"slots": 3, "staleness": {"eta_batches": 1}}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", '{"arms": {"a": 1, "b": 2, "a": 3}}', "'?a'? is there twice"),
        ("a.json", "[1]", "not a list"),
        ("a.json", '{"a":' * 30 + "1" + "}" * 30, "more than 20 deep"),
        ("a.toml", "vary." + ".".join("a" * 3000) + " = [1]", "more than 20 deep"),
    ],
)
def test_what_cannot_be_read_is_refused(name: str, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=said):
        read_fields(tmp_path / name)
