"""Weights & Biases (offline) and trackio, through their own packages: a folder for `wandb sync` or trackio.

Nothing is sent: wandb runs in its offline mode, trackio without a space or a server. Both keep the moment at
which a row was logged, which is that of the export; the run's own seconds are metrics.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from analysis.export.extras import extra
from analysis.export.rows import Row
from analysis.runs import Run

PROJECT: Final = "policylag"


def write_wandb(folder: Path, name: str, run: Run, rows: Sequence[Row]) -> None:
    """One offline run under `wandb/` of a folder, with the run's configuration.

    Raises:
        ValueError: wandb is not installed.
    """
    with wandb_run(folder, name, run.config, mode="offline") as tracked:
        for row in rows:
            tracked.log(row.values, step=row.update)


def wandb_run(folder: Path, name: str, config: Mapping[str, Any], *, mode: str) -> Any:
    """An open run of wandb that says nothing of this machine or this checkout.

    Args:
        folder: its files come to lie in `wandb/` there.
        mode: wandb's own: "offline", "online" or "disabled".

    Raises:
        ValueError: wandb is not installed.
    """
    wandb = extra("wandb", "wandb")
    folder.mkdir(exist_ok=True)
    settings = wandb.Settings(
        mode=mode,
        root_dir=str(folder),
        console="off",
        silent=True,
        disable_git=True,
        disable_code=True,
        x_disable_stats=True,
        x_disable_meta=True,
        x_save_requirements=False,
    )
    return wandb.init(project=PROJECT, name=name, config=dict(config), settings=settings)


def write_trackio(folder: Path, name: str, run: Run, rows: Sequence[Row]) -> None:
    """One run in the database of a folder: `TRACKIO_DIR=FOLDER trackio show`.

    trackio reads that variable when it is imported, so a process can write to one folder only.

    Raises:
        ValueError: trackio is not installed, or was imported for another folder.
    """
    folder.mkdir(exist_ok=True)
    os.environ["TRACKIO_DIR"] = str(folder)
    trackio = extra("trackio", "trackio")
    used = extra("trackio.utils", "trackio").TRACKIO_DIR
    if Path(used) != folder:
        raise ValueError(f"trackio already writes to {used} in this process, not to {folder}")
    with contextlib.redirect_stdout(sys.stderr):  # what it says is no answer of ours
        trackio.init(
            project=PROJECT,
            name=name,
            config=dict(run.config),
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        for row in rows:
            trackio.log(row.values, step=row.update)
        trackio.finish()
