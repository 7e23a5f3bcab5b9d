"""What reads the words of each subcommand, without doing what they ask."""

from collections.abc import Callable, Mapping
from typing import Any

from analysis.audit.ask import Auditing
from analysis.export.ask import Exporting
from full_runs import command as full
from full_runs.calibrate.command import Asked as Calibrating
from simulator import checking
from simulator.command_line import Options, read_experiment, run_tyro
from simulator.exact import ask as bias
from simulator.experiments import PIPELINES
from simulator.lab import ask as learn
from simulator.planner import ask as plan
from simulator.report_words import read_report
from simulator.studies import ask as study
from simulator.validation import ask as validate


def _simulate(words: list[str]) -> Any:
    return read_experiment(words, PIPELINES, Options(), command="simulate", about="", what="experiment")


PARSERS: Mapping[str, Callable[[list[str]], Any]] = {
    "simulate": _simulate,
    "learn": learn.ask,
    "study": lambda words: study.ask(words) if words else study.listing(),
    "report": read_report,
    "validate": validate.ask,
    "plan": plan.ask,
    "bias": bias.ask,
    "check": checking.ask,
    "full": full.ask,
    "calibrate": lambda words: run_tyro(Calibrating, words, command="calibrate"),
    "audit": lambda words: run_tyro(Auditing, words, command="audit"),
    "export": lambda words: run_tyro(Exporting, words, command="export"),
}
