"""From words and files to a checked configuration, or to one clear line that names field and value.

Annotations are evaluated eagerly here (no `__future__` import), because tyro makes the flags from them.
"""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import tyro
from pydantic import BaseModel, ValidationError

from simulator.config import PipelineConfig, length_law
from simulator.config_file import read_config
from simulator.estimator_flag import FLAGS
from simulator.words import split, unknown, wrapped
from simulator.world.lengths import Trace
from simulator.world.trace_csv import read_lengths

_SHOWN: Final = 200
"""Letters of a wrong value that a message repeats."""

Config = TypeVar("Config", bound=BaseModel)
Anything = TypeVar("Anything")
_FLAT = tyro.conf.arg(name="")


class BadInputError(Exception):
    """What the user gave cannot be used; the message is one line and names field and value."""


@dataclass(frozen=True)
class Options:
    """Where things come from and where they go."""

    lengths_csv: Path | None = None
    """Take lengths from this CSV (plain or .gz) in place of the length law."""
    lengths_column: str = "tokens"
    """Column of the CSV that holds lengths in tokens."""
    out: Path | None = None
    """Folder for the event log. It must be new or empty, but for a study, which resumes in it."""
    quiet: bool = False
    """No progress on stderr."""
    json: bool = False
    """One JSON object on stdout, and nothing else there."""

    @property
    def silent(self) -> bool:
        return self.quiet or self.json


@dataclass(frozen=True)
class StudyOptions(Options):
    """Where things come from, where they go, and how many at once."""

    size: str = "small"
    """How large a study: small (minutes) or full. Fields that are given change it."""
    only: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Run these arms only: patterns such as "grpo*", several with commas or by repeating the flag."""
    jobs: int | None = None
    """Runs at once, each in a process of its own; by default one a processor (of Ray's, with Ray)."""
    backend: Literal["joblib", "ray"] = "joblib"
    """Processes of this machine, or Ray: the cluster at RAY_ADDRESS, else a local one."""
    dry_run: bool = False
    """Say which runs are missing and how long they will take, and stop."""


Given = TypeVar("Given", bound=Options)


def read_experiment(
    words: list[str],
    experiments: Mapping[str, Callable[[], Config]],
    options: Given,
    *,
    command: str,
    about: str,
    what: str = "experiment",
    listing: str | None = None,
) -> tuple[str, Config, Given]:
    """`[EXPERIMENT] [--config FILE] [--field value ...]`: later ones change what earlier ones set.

    Args:
        words: after the subcommand.
        experiments: by name; the first is the default.
        options: defaults of what is not part of the configuration.
        command: for messages, as in "simulate".
        about: one sentence for `--help`.
        what: an experiment is called here.
        listing: of the experiments, for `--help`; None for their names in order.

    Raises:
        BadInputError: an unknown experiment or field, an impossible value, an unreadable file.
    """
    name, rest = next(iter(experiments)), split(words, "--config")
    if rest and not rest[0].startswith("-") and ":" not in rest[0]:
        name = rest.pop(0).replace("_", "-")
    if name not in experiments:
        there_is_no = unknown(what, name, list(experiments), help_of=f"policylag {command}")
        raise BadInputError(f"{command}: {there_is_no}")
    default = experiments[name]()
    if "--config" in rest:
        default = _from_file(rest, default, command)

    def read(
        config: Annotated[type(default), _FLAT] = default,  # type: ignore[valid-type]
        given: Annotated[type(options), _FLAT] = options,  # type: ignore[valid-type]
    ) -> tuple[Any, Any]:
        return config, given

    names = listing or f"{what.capitalize()} names: {', '.join(experiments)}."
    fields = "A file may set fields first: --config FILE (.toml or .json)."
    about = wrapped(f"{about}\n\n{names}\n\n{fields}")
    config, given = run_tyro(read, rest, command=f"{command} {name}", about=about)
    return name, config, given


def run_tyro(
    read: Callable[..., Anything], words: list[str], *, command: str, about: str | None = None
) -> Anything:
    """What `read` returns for these words; `--help` prints and exits as tyro does.

    Args:
        about: opens the help; None for the docstring of `read`.

    Raises:
        BadInputError: in place of tyro's box.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            asked = tyro.cli(
                read,
                args=words,
                prog=f"policylag {command}",
                description=about,
                config=(tyro.conf.CascadeSubcommandArgs,),
                registry=FLAGS,
            )
    except ValidationError as wrong:
        raise BadInputError(f"{command.split()[0]}: {one_line(wrong)}") from None
    except SystemExit as stop:
        if not stop.code:
            raise
        raise BadInputError(f"{command.split()[0]}: {_why(stop, said.getvalue())}") from None
    sys.stderr.write(said.getvalue())  # warnings, of a law without a mean, say
    return asked


@contextlib.contextmanager
def bad_input(prefix: str = "") -> Iterator[None]:
    """Turn what pydantic, files and traces complain of into one line."""
    try:
        yield
    except ValidationError as wrong:
        raise BadInputError(prefix + one_line(wrong)) from None
    except (ValueError, OSError, RecursionError) as wrong:
        raise BadInputError(prefix + " ".join(str(wrong).split())) from None


def one_line(wrong: ValidationError, parent: str = "") -> str:
    """Every error as `path.to.field: what is wrong, got value`."""
    said = []
    for error in wrong.errors(include_url=False):
        path = ".".join([*([parent] if parent else []), *map(str, error["loc"])])
        unknown = error["type"] == "extra_forbidden"
        message = "there is no such field" if unknown else error["msg"].removeprefix("Value error, ")
        # A rule over several fields names them and their values itself.
        got = "" if error["type"] == "value_error" else f", got {_shortened(repr(error['input']))}"
        said.append(f"{path}: {message}{got}" if path else message)
    return "; ".join(said)


def _shortened(value: str) -> str:
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."


def with_lengths(pipeline: PipelineConfig, options: Options) -> PipelineConfig:
    """The pipeline with lengths from the user's trace, if one was named; says which rows were refused.

    Raises:
        BadInputError: the file, the column or all its rows cannot be used.
    """
    if options.lengths_csv is None:
        with bad_input("lengths: "):
            length_law(pipeline.lengths)  # a trace that the configuration names must be readable, too
        return pipeline
    path = options.lengths_csv.expanduser().resolve()
    with bad_input("lengths_csv: "):
        trace = read_lengths(path, options.lengths_column)
    # Data that was left out is said in any case; --quiet and --json silence progress.
    if trace.refused or not options.silent:
        print(f"{path.name}: {trace.rows} lengths, {len(trace.refused)} rows refused", file=sys.stderr)
        for row in trace.refused[:10]:
            print(f"  line {row.line}: {row.value!r} is {row.reason}", file=sys.stderr)
        if len(trace.refused) > 10:
            print(f"  and {len(trace.refused) - 10} more", file=sys.stderr)
    lengths = Trace(path=str(path), column=options.lengths_column, weights_column=trace.weights_column)
    return pipeline.model_copy(update={"lengths": lengths})


def _from_file(words: list[str], default: Config, command: str) -> Config:
    """What `--config FILE` makes of the default; both words are taken out."""
    at = words.index("--config")
    if at + 1 == len(words):
        raise BadInputError(f"{command}: --config needs a file")
    path = Path(words[at + 1])
    del words[at : at + 2]
    with bad_input(f"{path}: "):
        return read_config(path, default)


def _why(stop: SystemExit, box: str) -> str:
    """The reason inside tyro's exit: pydantic's, if there is one, else the text of the box."""
    cause: BaseException | None = stop
    while cause is not None and not isinstance(cause, ValidationError):
        cause = cause.__context__
    text = re.sub(r"[╭╮╰╯│]", " ", box)
    if isinstance(cause, ValidationError):
        parent = re.search(r"Error parsing (?:--)?([a-z][\w.-]*):", text)
        return one_line(cause, parent.group(1).removeprefix("config.") if parent else "")
    # Rules part the box's title, the reason and advice; a plain terminal's box is drawn in ASCII.
    return " ".join(re.split(r"[─-]{4,}", text)[1].split())
