"""From the words of `policylag plan` to what it says, and what it leaves in a folder."""

from __future__ import annotations

from simulator.command_line import bad_input
from simulator.files import write_json, write_text
from simulator.folders import must_be_free
from simulator.planner import compare as barrier
from simulator.planner import plan as planning
from simulator.planner import published
from simulator.planner.ask import ask
from simulator.planner.words import comparison_text, plan_text, published_text, to_json
from simulator.progress import progress


def answer(words: list[str]) -> str:
    """The plan, the comparison or the published rows, as text or JSON.

    Raises:
        BadInputError: the question cannot be asked, or the folder not be written to.
    """
    name, config, options = ask(words)
    if options.published:
        return published_text(published.rows())
    must_be_free(options.out)
    compared = planned = None
    with bad_input("plan: "):
        if options.compare:
            with progress(barrier.simulations(config), "simulations", silent=options.silent) as advance:
                compared = barrier.compare(
                    config, updates=options.updates_wanted, jobs=options.jobs, advance=advance
                )
            text = comparison_text(compared)
        else:
            with progress(planning.simulations(config), "simulations", silent=options.silent) as advance:
                planned = planning.plan(config, jobs=options.jobs, advance=advance)
            text = plan_text(planned)
    told = to_json(name, planned, compared)
    if options.out is not None:
        with bad_input("out: "):
            options.out.mkdir(parents=True, exist_ok=True)
            write_json(options.out / "config.json", config.model_dump(mode="json"))
            write_text(options.out / "plan.json", told)
            write_text(options.out / "plan.txt", text)
    return told if options.json else text
