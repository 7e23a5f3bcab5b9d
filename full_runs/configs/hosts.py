"""Which parts of a run are on other hosts, and how are they reached?

The controller starts processes on its own host only. A trainer's other nodes join it
(`full_runs.trainer.join`), engines elsewhere are named by their URLs.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_ENDPOINT: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})")
_VARIABLE: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"


class OnHosts(BaseModel):
    """Nodes of the trainer, and engines that somebody else started."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    trainer_nodes: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Hosts that share the ranks evenly; this one has the first."""
    rendezvous: str | None = None
    """`HOST:PORT` of this host, as the trainer's other nodes reach it. Whoever reaches it can disturb the
    run: keep the network closed to others."""
    engine_urls: tuple[str, ...] = ()
    """Engines that run already, in place of those that would be started here; as many as `engines`. They are
    never ended; new weights they read from the run's folder, or get over the wire (`push_over`)."""
    engine_api_key_variable: Annotated[str, Field(pattern=_VARIABLE)] | None = None
    """Name of the environment variable that holds their API key; the key itself is written nowhere."""

    @field_validator("rendezvous")
    @classmethod
    def _is_an_endpoint(cls, given: str | None) -> str | None:
        if given is not None:
            found = _ENDPOINT.fullmatch(given)
            if found is None or not 0 < int(found["port"]) < 2**16:
                raise ValueError(f"rendezvous is {given!r}, not HOST:PORT")
        return given

    @field_validator("engine_urls")
    @classmethod
    def _are_urls(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for url in given:
            _check_url(url)
        trimmed = tuple(url.rstrip("/") for url in given)
        if twice := sorted({url for url in trimmed if trimmed.count(url) > 1}):
            raise ValueError(f"engine_urls names {', '.join(twice)} twice")
        return trimmed

    @model_validator(mode="after")
    def _strangers_show_a_key(self) -> Self:
        far = [url for url in self.engine_urls if not is_loopback(urlsplit(url).hostname or "")]
        if far and self.engine_api_key_variable is None:
            raise ValueError(
                f"engine_urls names {far[0]}, which is not this host, and engine_api_key_variable is None: an"
                " engine that others reach needs a key"
            )
        return self


def is_loopback(host: str) -> bool:
    """Only this host reaches it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _check_url(url: str) -> None:
    wants = "engine_urls wants http://HOST:PORT"
    try:
        parts = urlsplit(url)
        _ = parts.port  # which may be none
    except ValueError as wrong:
        raise ValueError(f"{wants}, got {url!r}: {wrong}") from None
    # Not shown: it would be a password in a message.
    if "@" in parts.netloc:
        raise ValueError(f"{wants}, got one with a user name; a key comes by engine_api_key_variable")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{wants}, got {url!r}")
