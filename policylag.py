"""The front door: one command, a subcommand for each question.

Exit status: 0 done, 1 a run, a law or a row failed, 2 bad input, 130 interrupted. Heavy imports
happen inside the subcommand that needs them, so that `policylag --help` is quick.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simulator.console import exit_status, prepare_streams

if TYPE_CHECKING:
    from simulator.command_line import Options
    from simulator.config import PipelineConfig
    from simulator.eventlog import EventLog
    from simulator.lab.config import LearnConfig
    from simulator.pipeline.pipeline import Run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    prepare_streams()
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    if words[0] not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(f"policylag: no subcommand {words[0]!r}; there are {known}", file=sys.stderr)
        return 2
    return exit_status(COMMANDS[words[0]], words[1:])


def simulate(words: list[str]) -> int:
    """how old is the data, how idle the machines, under this pipeline? (timing only)"""
    from simulator.answer import answer

    return _finish_run(*answer(words))


def learn(words: list[str]) -> int:
    """one run: the same pipeline with a small model learning in it"""
    from simulator.lab.answer import answer, done
    from simulator.lab.ask import ask

    asked = ask(words)
    run = answer(asked)
    status = _finish_run(run, asked.config, asked.name, asked.options, replayed=asked.recorded)
    done(asked)
    return status


def study(words: list[str]) -> int:
    """a named grid of runs with seeds, in parallel, resumable: which estimator survives?"""
    from analysis.report.finish import finish_study
    from analysis.report.possible import must_be_possible
    from simulator.command_line import bad_input
    from simulator.studies.ask import ask, listing
    from simulator.studies.conduct import conduct
    from simulator.studies.dry_run import dry_run

    if not words or words[0] in ("-h", "--help"):
        print(listing())
        return 0
    asked = ask(words)
    with bad_input("study: "):
        must_be_possible(asked.plan.criteria, asked.plan.hypotheses, asked.plan.pictures)
    if asked.options.dry_run:
        print(dry_run(asked))
        return 0
    if not asked.options.silent:
        done = sum(cell.is_done(asked.out) for cell in asked.chosen)
        print(f"{len(asked.chosen)} runs, {done} of them done already", file=sys.stderr)
    all_well = conduct(asked)
    if any(cell.is_done(asked.out) for cell in asked.cells):
        shown = next(cell for cell in reversed(asked.cells) if cell.is_done(asked.out))
        with bad_input("study: "):  # a picture may ask for a factor that there is not
            finish_study(asked.out, shown.folder(asked.out), as_json=asked.options.json)
    return 0 if all_well else 1


def report(words: list[str]) -> int:
    """figures and verdicts from recorded runs, as one HTML page"""
    from analysis.report.build import figure_files, render, report_for_study
    from analysis.report.seeds import seeds_text
    from analysis.report.terminal import Terminal, print_study
    from simulator.command_line import bad_input
    from simulator.files import write_files, write_text
    from simulator.report_words import read_report

    asked = read_report(words)
    with bad_input("report: "):
        judged = report_for_study(*asked.runs, **_registered(asked.claims))
        asked.page.parent.mkdir(parents=True, exist_ok=True)
        write_text(asked.page, render(judged))
        if asked.figures is not None:
            write_files(asked.figures, figure_files(judged))
    if asked.claims is not None:
        print_study(judged, Terminal())
    if asked.half_width is not None:
        print(seeds_text(judged.study.outcomes, asked.half_width))
    print(asked.page)
    return 0


def bias(words: list[str]) -> int:
    """bias and variance of an estimator against the exact gradient, by lag"""
    from analysis.bias.report import files, text, to_json
    from simulator.command_line import bad_input
    from simulator.exact.answer import answer
    from simulator.exact.ask import ask
    from simulator.files import write_files
    from simulator.folders import must_be_free

    asked = ask(words)
    must_be_free(asked.out)
    found, swept = answer(asked)
    if asked.out is not None:
        with bad_input("out: "):
            write_files(asked.out, files(found, swept).items())
    print(to_json(found, swept) if asked.json else text(found, swept))
    return 0


def check(words: list[str]) -> int:
    """does my own estimator obey the laws?"""
    from simulator.checking import answer, ask, show

    asked = ask(words)
    verdicts = answer(asked)
    print(show(verdicts, asked))
    return 0 if all(verdict.holds for verdict in verdicts) else 1


def validate(words: list[str]) -> int:
    """does the simulator meet theory and published runs?"""
    from simulator.progress import progress
    from simulator.validation.ask import answer, ask, text, to_json

    asked = ask(words)
    with progress(len(asked.checks), "checks", silent=asked.silent) as advance:
        rows = answer(asked, advance)
    print(to_json(rows) if asked.json else text(rows))
    return 0 if all(row.holds for row in rows) else 1


def plan(words: list[str]) -> int:
    """how to split machines, how many rollouts in flight, how stale may data be?"""
    from simulator.planner.answer import answer

    print(answer(words))
    return 0


def audit(words: list[str]) -> int:
    """what is wrong with the age and the ratios of the data in a training log?"""
    from analysis.audit.ask import answer
    from simulator.command_line import bad_input, run_tyro

    return answer(words, run_tyro, bad_input)


def export(words: list[str]) -> int:
    """metrics of recorded runs, in the words and files of other tools"""
    from analysis.export.ask import answer
    from simulator.command_line import bad_input, run_tyro

    return answer(words, run_tyro, bad_input)


def full(words: list[str]) -> int:
    """real vLLM engines and an FSDP trainer, the same estimator"""
    from analysis.report.finish import keep_trace
    from analysis.runs import load_run
    from full_runs.command import ask, conduct, planned

    asked = ask(words)
    if asked.options.dry_run:
        print(planned(asked))
        return 0
    conduct(asked)
    keep_trace(load_run(asked.run_folder), asked.run_folder)
    return 0 if asked.options.json else report([str(asked.run_folder)])


def calibrate(words: list[str]) -> int:
    """which constants make the simulator behave as a recorded run, and what does it then foretell?"""
    from full_runs.calibrate.command import answer

    print(answer(words))
    return 0


COMMANDS: Final[Mapping[str, Callable[[list[str]], int]]] = {
    "simulate": simulate,
    "learn": learn,
    "study": study,
    "report": report,
    "validate": validate,
    "plan": plan,
    "bias": bias,
    "check": check,
    "full": full,
    "calibrate": calibrate,
    "audit": audit,
    "export": export,
}


def _overview() -> str:
    lines = [f"  {name:10} {command.__doc__}" for name, command in COMMANDS.items()]
    usage = "usage: policylag SUBCOMMAND [EXPERIMENT] [--field value ...] [--config FILE]"
    return "\n".join([usage, "", *lines, "", "policylag SUBCOMMAND --help lists its fields."])


def _registered(file: Path | None) -> dict[str, Any]:
    """What a file claims of runs, and how they are judged."""
    from analysis.measures.collapse import Criteria
    from analysis.report.possible import must_be_possible
    from simulator.command_line import bad_input
    from simulator.studies.own import claims, read

    if file is None:
        return {}
    with bad_input(f"{file}: "):
        own = read(file).own
        hypotheses = claims(own)
        must_be_possible(own.criteria, hypotheses, own.pictures)
        given = {"title": own.title, "pictures": own.pictures}
        return {"hypotheses": hypotheses, "criteria": Criteria(**own.criteria), "claims_file": file, **given}


def _finish_run(
    run: Run,
    config: PipelineConfig | LearnConfig,
    name: str,
    options: Options,
    *,
    replayed: EventLog | None = None,
) -> int:
    """Keep the run if a folder was named, and say what it came to."""
    from analysis.report.finish import keep_trace, run_said
    from analysis.runs import from_log
    from simulator.config import share_clipped
    from simulator.runfolder import clock_of, write_run
    from simulator.studies.quick import CRITERIA

    # A learning run is named by what it really ran, whatever experiment its fields were changed from.
    arm = getattr(config, "estimator", name).replace("_", "-")
    recorded = from_log(run.log, arm=arm, seed=run.config.seed, clock=clock_of(config))
    if options.out is not None:
        write_run(options.out, run.log, config, arm=arm, replayed=replayed)
        keep_trace(recorded, options.out)
    more: dict[str, object] = {**run.failures}
    if replayed is None:  # a replay reads no lengths, and their file may be gone
        more["clipped_length_share"] = share_clipped(run.config.lengths)
    more["digest"] = run.log.digest()
    print(run_said(recorded, CRITERIA, more, as_json=options.json))
    return 0


if __name__ == "__main__":
    sys.exit(main())
