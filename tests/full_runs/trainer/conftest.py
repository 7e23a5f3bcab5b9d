"""One rank in the test's own process: FSDP2 with nobody to share with."""

import socket
from collections.abc import Iterator

import pytest
from torch import distributed as dist

from full_runs.trainer.ranks import Ranks, joined


@pytest.fixture(scope="module")
def alone() -> Iterator[Ranks]:
    with socket.socket() as free, pytest.MonkeyPatch.context() as patch:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        for name, value in {**where, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}.items():
            patch.setenv(name, value)
        yield joined(device="cpu", timeout_s=60)
        dist.destroy_process_group()
