"""Engines and nodes elsewhere: what is refused, each by name and value."""

from __future__ import annotations

from typing import Any

import pytest

from full_runs.configs.hosts import is_loopback
from full_runs.configs.record import FullConfig

NEAR, FAR = "http://127.0.0.1:8000", "http://node-3:8000"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"engine_urls": [FAR]}, "node-3:8000, which is not this host, and engine_api_key_variable is None"),
        ({"engine_urls": ["http://10.0.0.1:8000"]}, "needs a key"),
        ({"engine_urls": [NEAR], "engines": 2, "in_flight": 64}, "engine_urls names 1, and engines is 2"),
        ({"engine_urls": [NEAR, NEAR + "/"], "engines": 2}, "names http://127.0.0.1:8000 twice"),
        ({"engine_urls": ["127.0.0.1:8000"]}, "wants http://HOST:PORT, got"),
        ({"engine_urls": ["ftp://127.0.0.1"]}, "got 'ftp://127.0.0.1'"),
        ({"engine_urls": [NEAR + "?a=b"]}, "wants http://HOST:PORT"),
        ({"engine_urls": ["http://127.0.0.1:99999"]}, "99999"),
        ({"engine_urls": [""]}, "wants http://HOST:PORT"),
        ({"engine_api_key_variable": "MY KEY"}, "engine_api_key_variable"),
        ({"rendezvous": "node-0"}, "rendezvous is 'node-0', not HOST:PORT"),
        ({"rendezvous": "node-0:0"}, "not HOST:PORT"),
        ({"rendezvous": "node-0:70000"}, "not HOST:PORT"),
        ({"rendezvous": "a b:1"}, "not HOST:PORT"),
        ({"trainer_nodes": 2, "ranks": 3}, r"ranks \(3\) is not a multiple of trainer_nodes \(2\)"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        FullConfig(**fields)


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="user name") as refused:
        FullConfig(engine_urls=("http://me:secret@127.0.0.1:1",))
    said = refused.value.errors()[0]["msg"]  # type: ignore[attr-defined]
    assert "secret" not in said


def test_engines_elsewhere_with_a_key_and_near_without_one() -> None:
    config = FullConfig(engine_urls=(FAR + "/", NEAR), engines=2, engine_api_key_variable="KEY")
    assert config.engine_urls == (FAR, NEAR)
    assert FullConfig(engine_urls=(NEAR,)).engine_api_key_variable is None
    assert FullConfig(rendezvous="[::1]:29500", trainer_nodes=2, ranks=2).rendezvous == "[::1]:29500"


@pytest.mark.parametrize(
    ("host", "near"),
    [("localhost", True), ("127.0.0.9", True), ("::1", True), ("[::1]", True), ("0.0.0.0", False),
     ("localhost.example", False), ("127.0.0.1.example", False), ("", False)],
)  # fmt: skip
def test_only_loopback_is_this_host(host: str, near: bool) -> None:
    assert is_loopback(host) is near
