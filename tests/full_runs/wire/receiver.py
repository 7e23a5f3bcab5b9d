"""The other end of a line, for `test_send`: `receiver.py TOLD BEHAVIOUR FILE SHAPES`."""

import json
import os
import sys
import time
from pathlib import Path

import torch

from full_runs.engine.layout import digest
from full_runs.wire.group import announced, broadcast, joined


def main(told: dict, behaviour: str, file: Path, shapes: list[list[int]]) -> None:
    timeout_s = told.pop("timeout_s")
    file.with_suffix(".ready").touch()  # imports are done: from here on it is as quick as the sender
    group = joined(**told, rank=1, timeout_s=timeout_s)
    assert [list(each.shape) for each in announced(group)] == shapes
    digests = []
    for number, shape in enumerate(shapes):
        if behaviour == "dies" and number == len(shapes) // 2:
            os._exit(1)
        if behaviour == "sleeps" and number == len(shapes) // 2:
            time.sleep(600)
        tensor = torch.empty(shape)
        broadcast(group, tensor).wait()
        digests.append(digest(tensor))
    group.abort()
    file.write_text(json.dumps(digests))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), json.loads(sys.argv[4]))
