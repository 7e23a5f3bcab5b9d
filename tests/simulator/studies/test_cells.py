import gzip
from pathlib import Path

import pytest

from simulator.experiments import groups
from simulator.studies import plan as grid
from simulator.studies.cells import Cell
from simulator.studies.quick import ARMS, HYPOTHESES, QuickStudy, plan
from simulator.world.lengths import Trace


def cells(study: QuickStudy) -> list[Cell]:
    return grid.cells(plan(study))


def test_arms_meet_the_same_traffic_at_equal_rollouts() -> None:
    runs = cells(QuickStudy(seeds=5))
    assert len(runs) == 5 * len(ARMS)
    pipelines = [cell.config.pipeline for cell in runs]
    assert {(p.rollouts_per_update, p.updates_per_batch, p.slots, p.updates) for p in pipelines} == {
        (128, 4, 1024, groups().updates)
    }
    for cell in runs:
        p = cell.config.pipeline
        assert (p.group_size, p.critic_updates) == ((1, 2) if cell.arm == "sao" else (8, 0))


def test_a_cells_name_follows_from_everything_that_decides_its_numbers() -> None:
    base = QuickStudy(seeds=1)
    same = [cell.name for cell in cells(base)]
    assert same == [cell.name for cell in cells(QuickStudy(seeds=1))]
    for other in (
        QuickStudy(seeds=1, learning_rate=1e-3),
        QuickStudy(seeds=1, pipeline=groups(push_s=0.25)),
        QuickStudy(seeds=1, pipeline=groups(seed=1)),
    ):
        assert not set(same) & {cell.name for cell in cells(other)}
    cheaper = cells(QuickStudy(seeds=1, critic_update_s=0.1))
    assert [c.name for c in cheaper[:3]] == same[:3]  # the group arms have no critic
    assert cheaper[3].name != same[3]


def test_a_changed_trace_is_another_cell(tmp_path: Path) -> None:
    trace = tmp_path / "lengths.csv.gz"

    def name() -> str:
        pipeline = groups(lengths=Trace(path=str(trace)))
        return Cell(arm="grpo", config=cells(QuickStudy(seeds=1, pipeline=pipeline))[0].config).name

    trace.write_bytes(gzip.compress(b"tokens\n5\n", mtime=0))
    before = name()
    trace.write_bytes(gzip.compress(b"tokens\n6\n", mtime=0))
    assert name() != before


def test_a_shared_pipeline_that_one_arm_cannot_have_is_refused() -> None:
    pipeline = groups(group_size=1)
    with pytest.raises(ValueError, match="group_size is 1: grpo"):
        cells(QuickStudy(pipeline=pipeline))


def test_all_claims_are_registered_with_the_runs() -> None:
    written = grid.registration(plan(QuickStudy(seeds=1)))
    assert len(written["hypotheses"]) == len(HYPOTHESES)  # type: ignore[arg-type]
    assert written["arms"] == list(ARMS)
    assert written["factors"]["sao"] == {"estimator": "sao", "group_size": 1}  # type: ignore[index]
    assert len(written["runs"]) == len(ARMS)  # type: ignore[arg-type]
