"""Does a server offer what a run needs? Asked first, so that a run fails with a name and not half-way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

GENERATE: Final = "/inference/v1/generate"
NEEDED: Final[Mapping[str, str]] = {
    GENERATE: "token ids in, token ids out; start it with --enable-scale-out",
    "/pause": "stand still while weights change; set VLLM_SERVER_DEV_MODE=1",
    "/resume": "go on afterwards; set VLLM_SERVER_DEV_MODE=1",
    "/collective_rpc": "take weights from a folder; set VLLM_SERVER_DEV_MODE=1",
    "/reset_prefix_cache": "compute keys and values again; set VLLM_SERVER_DEV_MODE=1",
    "/update_weight_version": "say which weights sampled a token; set VLLM_SERVER_DEV_MODE=1",
    "/weight_info": "read the version back; set VLLM_SERVER_DEV_MODE=1",
}
"""Path -> what it is for, and how to get it."""
SUPPORTED: Final = "vLLM 0.32 and 0.33"


def check_paths(offered: Iterable[str], where: str) -> None:
    """Raise if a server lacks something.

    Args:
        offered: the paths that it lists (`/openapi.json`).
        where: its address, for the message.

    Raises:
        ValueError: naming every path that is missing, what it is for, and the versions that have it.
    """
    if missing := sorted(NEEDED.keys() - set(offered)):
        wants = "; ".join(f"{path} ({NEEDED[path]})" for path in missing)
        raise ValueError(f"the engine at {where} lacks {wants}. Supported: {SUPPORTED}")
