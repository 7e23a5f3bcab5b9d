"""Is a record about one rollout, and which of our fields does it hold? Each form is one system's.

Names: verl's `trainer.rollout_data_dir` (input, output, score, step), TRL's completions (prompt, completion,
a column a reward, advantage), prime-rl's token exports (tokens), AReaL's session traces (submit_ts, status).
Token-level names are those of the systems' batches: rollout_log_probs and old_log_probs (verl),
rollout_logprobs and action_log_probs (SkyRL), inference_logprobs and trainer_logprobs (prime-rl).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, final

from analysis.audit.reading.lines import Record
from analysis.audit.reading.numbers import number
from analysis.systems.areal import AREAL
from analysis.systems.plain import PLAIN
from analysis.systems.prime_rl import PRIME_RL
from analysis.systems.system import System
from analysis.systems.trl import TRL
from analysis.systems.verl import VERL

FIELDS: Final[Mapping[str, str]] = {
    "update": "number of the update that trained it",
    "id": "what tells it from every other rollout",
    "group": "what its group shares",
    "prompt": "its prompt",
    "response": "its text",
    "response_length": "tokens of the response",
    "reward": "its reward",
    "status": "trained, accepted; or dropped, rejected, failed",
    "truncated": "true if cut at the limit",
    "lag": "its lag, in the system's versions",
    "version": "version that sampled it",
    "consumed_version": "version of the trainer when it was trained",
    "behaviour_logprobs": "log-prob of each token when it was sampled",
    "trainer_logprobs": "log-prob of each token in the trainer",
    "token_mask": "true for tokens that the loss counts",
    "token_rewards": "reward of each token",
    "token_versions": "version that sampled each token",
    "generate_s": "seconds of generation",
}

ALIASES: Final[Mapping[str, str]] = {
    "step": "update",
    "global_step": "update",
    "rollout_id": "id",
    "uid": "group",
    "group_id": "group",
    "completion": "response",
    "score": "reward",
    "rollout_log_probs": "behaviour_logprobs",
    "rollout_logprobs": "behaviour_logprobs",
    "inference_logprobs": "behaviour_logprobs",
    "old_log_probs": "trainer_logprobs",
    "action_log_probs": "trainer_logprobs",
    "response_mask": "token_mask",
    "loss_mask": "token_mask",
    "token_level_rewards": "token_rewards",
    "token_level_scores": "token_rewards",
    "versions": "token_versions",
    "staleness": "lag",
}
_OF_A_ROLLOUT: Final = ("behaviour_logprobs", "trainer_logprobs", "token_rewards", "response")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to write a rollout down."""

    system: System
    name: str
    fits: Callable[[Record], bool]
    convert: Callable[[Record], Record]
    """In our names; an empty record if it is none of training's."""


def form_of(record: Record, aliases: Mapping[str, str]) -> Form | None:
    """The form of a record, or None if it is about a whole update."""
    own = plain_form(aliases)
    return next((form for form in (*FORMS, own) if form.fits(record)), None)


def plain_form(aliases: Mapping[str, str]) -> Form:
    """Our own names and those that several systems share, after the user's."""
    known = {name: name for name in FIELDS} | dict(ALIASES) | dict(aliases)

    def convert(record: Record) -> Record:
        found: dict[str, object] = {}
        for theirs, value in record.items():
            if (ours := known.get(theirs)) in FIELDS:
                found.setdefault(str(ours), value)
        return found

    def fits(record: Record) -> bool:
        return "rollout_id" in record or any(name in convert(record) for name in _OF_A_ROLLOUT)

    return Form(system=PLAIN, name="rollouts", fits=fits, convert=convert)


def _verl(record: Record) -> Record:
    found = dict(plain_form({}).convert(record))
    return found | {"prompt": record["input"], "response": record["output"], "group": record["input"]}


def _trl(record: Record) -> Record:
    if record.get("mode", "train") != "train":
        return {}
    rest = {name: value for name, value in record.items() if name not in _TRL_OWN}
    rewards = [value for value in map(number, rest.values()) if value is not None]
    return {
        "update": record.get("step"),
        "prompt": record["prompt"],
        "group": record["prompt"],
        "response": record["completion"],
        # *Choice*: the sum of the reward columns; their weights are not in the file.
        "reward": sum(rewards) if rewards else None,
    }


_TRL_OWN: Final = frozenset({"mode", "step", "prompt", "completion", "advantage"})


def _prime_rl(record: Record) -> Record:
    tokens = [token for token in _list(record["tokens"]) if isinstance(token, dict)]
    columns = {
        "behaviour_logprobs": "inference_logprob",
        "trainer_logprobs": "trainer_logprob",
        "token_mask": "loss_mask",
        "token_rewards": "reward",
    }
    found = {ours: [token.get(theirs) for token in tokens] for ours, theirs in columns.items()}
    return {"update": record.get("step"), "response_length": len(tokens), **found}


def _areal(record: Record) -> Record:
    own = record.get("session_id", record.get("request_id"))
    return {
        "id": f"{record.get('rank')}/{record.get('task_id')}/{own}",
        "status": record.get("status"),
        "generate_s": record.get("generate_s"),
    }


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


FORMS: Final[tuple[Form, ...]] = (
    Form(
        system=VERL,
        name="rollouts of verl",
        fits=lambda record: {"input", "output", "score"} <= record.keys(),
        convert=_verl,
    ),
    Form(
        system=TRL,
        name="completions of TRL",
        fits=lambda record: {"prompt", "completion", "step"} <= record.keys(),
        convert=_trl,
    ),
    Form(
        system=PRIME_RL,
        name="token exports of prime-rl",
        fits=lambda record: any(
            isinstance(token, dict) and "inference_logprob" in token
            for token in _list(record.get("tokens"))[:1]
        ),
        convert=_prime_rl,
    ),
    Form(
        system=AREAL,
        name="session traces of AReaL",
        fits=lambda record: (
            {"submit_ts", "status"} <= record.keys() and bool({"session_id", "request_id"} & record.keys())
        ),
        convert=_areal,
    ),
)
