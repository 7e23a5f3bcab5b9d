"""Which module is on which page of the reference?

Modules are found by reading folders, never imported: the site is built without vLLM, and without torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

ALGORITHMS: Final[Mapping[str, Sequence[str]]] = {
    "Rollouts and batches": ("rollout", "actions", "steps", "precision", "piece"),
    "The estimator": ("estimator", "aggregate", "catalogue", "describe", "diagnostics"),
    "Advantages": ("advantage", "baseline", "prompt_mean", "gae", "vtrace"),
    "Ratios and trust regions": ("ratio", "likelihood", "trust", "weighting"),
    "Corrections": ("correction", "mismatch", "rejection", "dropping"),
    "Penalties": ("kl", "penalty", "entropy"),
    "The critic": ("critic",),
    "GRPO and its relatives": ("grpo", "dapo", "dr_grpo", "rloo", "reinforce_pp", "kimi", "gspo", "gmpo"),
    "SAO and other critics": ("sao", "sao_ablations", "through_observations", "vapo", "spo"),
    "Corrected for staleness": (
        *("tis", "mis", "icepop", "decoupled", "a3po", "cispo", "truncated_is", "topr", "vespo", "dppo"),
        *("sapo", "delta", "opsm", "m2po", "bapo", "vcpo", "tba"),
    ),
}
"""Page -> modules of `algorithms`; what is on none is on a last one. Its sub-packages have a page each."""

NAMES: Final[Mapping[str, str]] = {
    "algorithms": "Estimators",
    "simulator": "Simulator",
    "analysis": "Analysis",
    "full_runs": "Full runs",
}


def pages() -> dict[str, list[tuple[str, str, list[str]]]]:
    """Section -> its pages: title, path in the site, and modules by their full names."""
    found = {}
    for package, section in NAMES.items():
        grouped = list(_grouped(package)) if package == "algorithms" else list(_own(package))
        found[section] = [*grouped, *_sub_packages(package)]
    return found


def text(title: str, modules: Sequence[str]) -> str:
    """A page: its title, and what mkdocstrings is to put there."""
    shown = [
        f"::: {module}\n    options:\n      show_source: {str(module.startswith('algorithms')).lower()}"
        for module in modules
    ]
    return "\n\n".join([f"# {title}", *shown]) + "\n"


def _grouped(package: str) -> Iterator[tuple[str, str, list[str]]]:
    for title, modules in ALGORITHMS.items():
        path = f"reference/{package}/{title.lower().replace(' ', '-')}.md"
        yield title, path, [f"{package}.{module}" for module in modules]
    listed = {f"{package}.{module}" for modules in ALGORITHMS.values() for module in modules}
    more = [module for module in _modules(ROOT / package, deep=False) if module not in listed]
    if more:
        yield "More", f"reference/{package}/more.md", more


def _own(package: str) -> Iterator[tuple[str, str, list[str]]]:
    modules = _modules(ROOT / package, deep=False)
    if modules:
        yield "At the top", f"reference/{package}/top.md", [package, *modules]


def _sub_packages(package: str) -> Iterator[tuple[str, str, list[str]]]:
    for folder in sorted((ROOT / package).iterdir()):
        if (folder / "__init__.py").is_file():
            modules = _modules(folder, deep=True)
            path = f"reference/{package}/{folder.name}.md"
            yield f"{package}.{folder.name}", path, [f"{package}.{folder.name}", *modules]


def _modules(folder: Path, *, deep: bool) -> list[str]:
    """Modules with something to say, by their full names."""
    files = sorted(folder.rglob("*.py") if deep else folder.glob("*.py"))
    names = [file.relative_to(ROOT).with_suffix("").parts for file in files]
    public = [parts for parts in names if not parts[-1].startswith("_")]
    return [".".join(parts) for parts in public]
