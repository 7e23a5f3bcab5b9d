"""`policylag simulate`: what was asked for, simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.command_line import Options, read_experiment, with_lengths
from simulator.experiments import PIPELINES
from simulator.folders import must_be_free
from simulator.progress import progress

if TYPE_CHECKING:
    from simulator.config import PipelineConfig
    from simulator.pipeline.pipeline import Run


def answer(words: list[str]) -> tuple[Run, PipelineConfig, str, Options]:
    """The run, what it was made from, the experiment's name, and where it goes.

    Raises:
        BadInputError: an unknown setting, an impossible value, or a folder that is in use.
    """
    from simulator.pipeline.pipeline import run

    about = "How old is the data, how idle the machines? Lengths come from a law; nothing learns."
    name, config, options = read_experiment(words, PIPELINES, Options(), command="simulate", about=about)
    config = with_lengths(config, options)
    must_be_free(options.out)
    with progress(config.updates, "updates", silent=options.silent) as advance:
        return run(config, progress=lambda _: advance()), config, name, options
