"""Does my own estimator obey the laws? What `policylag check MODULE:ATTR` asks, loads and answers.

Annotations are evaluated eagerly here (no `__future__` import), because tyro makes the flags from them.
"""

import contextlib
import importlib
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from simulator.command_line import BadInputError, run_tyro

if TYPE_CHECKING:
    from algorithms.conformance.check import Verdict


@dataclass(frozen=True)
class Checking:
    """Does my own estimator obey the laws? Each is tried on batches that break losses.

    The laws are those of every estimator: masks, padding, shards, extreme ratios, and REINFORCE where no
    policy has moved. Beyond that they know nothing of trust regions: a clip the wrong way round obeys them.
    """

    target: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODULE:ATTR")] = ""
    """An Estimator, a function without arguments that returns one, or a loss function of (log_probs,
    old_log_probs, advantages, mask) and perhaps total. MODULE may be a file: my/losses.py:grpo."""
    examples: int = 100
    """Batches tried for each law."""
    shortest: int = 1
    """Fewest action tokens of a rollout that has any, for what refuses short ones, such as vapo."""
    longest: int = 4
    """Most tokens of a rollout. Short ones find faults sooner, and can be checked by hand."""
    json: bool = False
    """One JSON object on stdout, and nothing else there."""


def ask(words: list[str]) -> Checking:
    """`MODULE:ATTR [--examples N] [--shortest N] [--longest N] [--json]`.

    Raises:
        BadInputError: a word that is no field, a target without a colon, fewer examples than one, lengths
            out of order.
    """
    asked = run_tyro(Checking, words, command="check")
    module, colon, attribute = asked.target.rpartition(":")
    if not (module and colon and attribute):
        raise BadInputError(f"check: target must be MODULE:ATTR, as in my_losses:grpo, got {asked.target!r}")
    if asked.examples < 1:
        raise BadInputError(f"check: examples must be at least 1, got {asked.examples}")
    if not 1 <= asked.shortest <= asked.longest:
        raise BadInputError(
            f"check: needs 1 <= shortest <= longest, got {asked.shortest} and {asked.longest}"
        )
    return asked


def answer(asked: Checking) -> "list[Verdict]":
    """The verdict of every law. What the checked code prints goes to stderr.

    Raises:
        BadInputError: hypothesis is absent, or the target cannot be loaded or tried.
    """
    with contextlib.redirect_stdout(sys.stderr), _hypothesis_home():
        return _checker()(
            load(asked.target), examples=asked.examples, shortest=asked.shortest, longest=asked.longest
        )


def show(verdicts: "list[Verdict]", asked: Checking) -> str:
    """Text, or JSON if it was asked for."""
    from algorithms.conformance.words import verdicts_json, verdicts_text

    return verdicts_json(verdicts) if asked.json else verdicts_text(verdicts)


def load(target: str) -> Any:
    """The estimator or loss function that `MODULE:ATTR` names, ready to be tried.

    Raises:
        BadInputError: the module cannot be imported, has no such attribute, or holds something else there.
    """
    from algorithms.conformance.subject import as_subject, needs_arguments
    from algorithms.estimator import Estimator

    place, _, attribute = target.rpartition(":")
    module = _module(place)
    if not hasattr(module, attribute):
        there = [name for name in vars(module) if name.isidentifier() and name[0] != "_"]
        listed = ", ".join(there[:20]) + (f" and {len(there) - 20} more" if len(there) > 20 else "")
        raise BadInputError(f"check: {place} has no {attribute!r}; there are {listed or 'no public names'}")
    found = getattr(module, attribute)
    if callable(found) and not isinstance(found, Estimator) and not needs_arguments(found):
        with _cause(f"check: {target}() failed"):
            made = found()
        if not isinstance(made, Estimator):
            kind = type(made).__name__
            raise BadInputError(f"check: {target}() must return an Estimator, got {kind}")
        found = made
    try:
        return as_subject(found)
    except ValueError as wrong:
        raise BadInputError(f"check: {target}: {wrong}") from None


def _module(place: str) -> ModuleType:
    """By name, or from a file; both see the current folder first, as `python -m` does."""
    path = Path(place)
    is_file = place.endswith(".py")
    for folder in [str(Path.cwd()), *([str(path.resolve().parent)] if is_file else [])]:
        if folder not in sys.path:
            sys.path.insert(0, folder)
    if not is_file:
        with _cause(f"check: cannot import {place}"):
            return importlib.import_module(place)
    if not path.is_file():
        raise BadInputError(f"check: no file {place}")
    with _cause(f"check: cannot import {place}"):
        # A name of its own: a user's torch.py must not become torch.
        spec = importlib.util.spec_from_file_location(f"checked_{path.stem}", path)
        assert spec is not None  # its name ends in .py
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module


@contextlib.contextmanager
def _cause(prefix: str) -> Iterator[None]:
    """Whatever the user's code raises, as one line that names it."""
    try:
        yield
    except (Exception, SystemExit) as failed:
        said = " ".join(str(failed).split())
        raise BadInputError(f"{prefix}: {type(failed).__name__}{': ' * bool(said)}{said}") from None


def _checker() -> "Callable[..., list[Verdict]]":
    try:
        from algorithms.conformance.check import check
    except ModuleNotFoundError as absent:
        if absent.name != "hypothesis":
            raise
        raise BadInputError("check: needs hypothesis, not installed here: pip install hypothesis") from None
    return check


@contextlib.contextmanager
def _hypothesis_home() -> Iterator[None]:
    """Hypothesis keeps a cache where it is run; a check leaves nothing behind."""
    _checker()
    from hypothesis import configuration

    with tempfile.TemporaryDirectory() as folder:
        configuration.set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(None)
