"""What did the engine say, how likely was it, and which weights said it?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, final

Ended = Literal["stop", "length", "abort"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Tokens of one request, with what is known of each."""

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    """Of the sampled tokens, in nats, by the weights and the engine that sampled them."""
    versions: tuple[int, ...]
    """Optimizer updates behind those weights."""
    ended: Ended
    """A stop token, the cap, or the engine was told to stop."""


def read_answer(choice: Mapping[str, Any], *, asked_tokens: int) -> Answer:
    """One choice of a token-in, token-out reply.

    Args:
        choice: with `token_ids`, `logprobs.content`, `weight_versions` and `finish_reason`.
        asked_tokens: `max_tokens` of the request.

    Raises:
        ValueError: a part is missing, of another length, or does not say what it must.
    """
    tokens = tuple(choice.get("token_ids") or ())
    content = (choice.get("logprobs") or {}).get("content") or ()
    if len(content) != len(tokens) or len(tokens) > asked_tokens:
        raise ValueError(
            f"the engine sent {len(tokens)} tokens and {len(content)} log-probs, {asked_tokens} were asked"
        )
    ended = choice.get("finish_reason")
    if ended not in ("stop", "length", "abort"):
        raise ValueError(f"the engine says that it ended by {ended!r}; stop, length or abort are known")
    return Answer(
        token_ids=tokens,
        log_probs=tuple(
            sampled_log_prob(candidates(entry), token) for entry, token in zip(content, tokens, strict=True)
        ),
        versions=token_versions(choice.get("weight_versions") or (), len(tokens)),
        ended=cast(Ended, ended),
    )


def candidates(entry: Mapping[str, Any]) -> dict[int, float]:
    """Token id -> log-prob, of all candidates that an engine reports at one position."""
    listed = [entry, *(entry.get("top_logprobs") or ())]
    return {int(each["token_id"]): float(each["logprob"]) for each in listed}


def sampled_log_prob(by_token: Mapping[int, float], token: int) -> float:
    """The log-prob of the token that was sampled, looked up by its id, never by its place.

    Raises:
        ValueError: the engine did not report it, or it is no log-prob.

    References:
        The first candidate taken for the sampled one: https://github.com/NVIDIA-NeMo/RL/issues/3297.
    """
    if token not in by_token:
        raise ValueError(f"no log-prob of the sampled token {token}: the engine reported {dict(by_token)}")
    log_prob = by_token[token]
    if not (math.isfinite(log_prob) and log_prob <= 1e-4):
        raise ValueError(f"the log-prob of the sampled token {token} is {log_prob}")
    return min(log_prob, 0.0)  # rounding may leave a certain token a hair above zero


def token_versions(spans: Sequence[Mapping[str, Any]], tokens: int) -> tuple[int, ...]:
    """Version of each token, from the engine's spans `{version, start, end}`.

    Raises:
        ValueError: the spans do not cover the tokens exactly, in order, or a version is no number: the engine
            was never told which weights it holds.
    """
    found: list[int] = []
    for span in spans:
        start, end, version = int(span["start"]), int(span["end"]), str(span["version"])
        if start != len(found) or end < start:
            raise ValueError(f"versions of {tokens} tokens do not follow each other: {list(spans)}")
        if end > start:
            if not version.isdecimal():
                raise ValueError(f"the engine's weights are called {version!r}, not by a count of updates")
            found.extend([int(version)] * (end - start))
    if len(found) != tokens:
        raise ValueError(
            f"the engine names the versions of {len(found)} tokens out of {tokens}: {list(spans)}"
        )
    return tuple(found)
