"""How does a program that nobody has read run without harm? In a process of its own, shut in by `jail`.

Each run has limits on wall time, CPU time, memory, files and processes, no network, no variable and no open
file of ours, and sees no file but the system's libraries and the interpreter's. Linux only. What the kernel
does not allow is refused, unless the user says that limits alone will do.

*Choices*: CPU time and memory are limited for each process, as the kernel counts them; a program that prints
more than it may is ended there; the processor is not rationed between programs that run at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from asyncio.subprocess import Process
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any, Final, Literal, TypeAlias, final

CODE_BYTES: Final = 1 << 18
"""A longer program is refused."""
_GRACE_S: Final = 5.0
_JAIL: Final = str(Path(__file__).with_name("jail.py"))
Ended: TypeAlias = Literal["exit", "time", "output"]
"""By itself, for its wall time, or for printing too much."""


class SandboxError(RuntimeError):
    """Programs cannot be shut in here."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one run.

    Args:
        wall_s, cpu_s: seconds; of CPU whole ones, for each process.
        memory_mb: address space of each process.
        file_mb: of its folder in all, and of one file.
        open_files, processes: at once.
        output_bytes: of stdout and stderr together.
        packages: a folder of packages that it may import besides the standard library; it is seen read-only.
        isolated: in namespaces of its own. Without, a program can read the user's files and use the network.
    """

    wall_s: float = 10.0
    cpu_s: int = 5
    memory_mb: int = 512
    file_mb: int = 16
    open_files: int = 64
    processes: int = 16
    output_bytes: int = 1 << 16
    packages: Path | None = None
    isolated: bool = True


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a program did.

    Args:
        output: stdout and stderr as they came, cut.
        ended: why.
        status: its exit status, 128 + signal if one ended it.
    """

    output: str
    ended: Ended
    status: int


async def run_python(code: str, limits: Limits) -> Ran:
    """Run a program; its process and all that it started have ended when this returns.

    Raises:
        SandboxError: not on Linux, or the kernel does not allow the isolation.
        ValueError: the program is too long.
    """
    if sys.platform != "linux":
        raise SandboxError(f"programs are shut in with Linux's namespaces; this is {sys.platform}")
    sent = code.encode(errors="surrogatepass")
    if len(sent) > CODE_BYTES:
        raise ValueError(f"a program has at most {CODE_BYTES} bytes, got {len(sent)}")
    with contextlib.ExitStack() as stack:
        folder = "/"
        if not limits.isolated:  # else its folder is in memory, and goes with it
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="sandbox-", ignore_cleanup_errors=True)
            )
        mark = secrets.token_hex(8)
        process = await asyncio.create_subprocess_exec(
            *_command(limits, mark), stdin=PIPE, stdout=PIPE, stderr=STDOUT, env={}, cwd=folder,
            start_new_session=True,
        )  # fmt: skip
        try:
            output, ended = await _output(process, sent, limits)
        finally:
            await _end(process)
    assert process.returncode is not None
    said = output.decode(errors="replace")
    _is_shut_in(said, mark)
    return Ran(output=said, ended=ended, status=process.returncode)


def check(limits: Limits) -> None:
    """Try an empty program, before a run begins.

    Raises:
        SandboxError: as `run_python`; or the interpreter does not start under these limits.
    """
    _on_linux()
    mark = secrets.token_hex(8)
    tried = subprocess.run(
        _command(limits, mark), input=b"", stdout=PIPE, stderr=STDOUT, env={}, cwd="/", check=False
    )
    said = tried.stdout.decode(errors="replace")
    _is_shut_in(said, mark)
    if tried.returncode:
        raise SandboxError(
            f"an empty program ends with status {tried.returncode} in the sandbox: {said[-300:]}"
        )


def _on_linux() -> None:
    if sys.platform != "linux":
        raise SandboxError(f"programs are shut in with Linux's namespaces; this is {sys.platform}")


def _is_shut_in(said: str, mark: str) -> None:
    if said.startswith(mark):
        raise SandboxError(
            f"programs cannot be shut in here ({said.removeprefix(mark).strip()}): let the kernel give"
            " namespaces to users, or set isolated to false; programs then run under limits alone, and can"
            " read the user's files and use the network"
        )


def _command(limits: Limits, mark: str) -> list[str]:
    python = os.path.realpath(sys.executable)
    told = _told(limits, python) | {"mark": mark}
    return [python, "-I", "-S", "-B", _JAIL, json.dumps(told)]


def _told(limits: Limits, python: str) -> dict[str, Any]:
    mega = 1 << 20
    return {
        "isolated": limits.isolated,
        "packages": limits.packages and str(limits.packages.resolve()),
        "prefix": os.path.realpath(sys.base_prefix),
        "python": python,
        "folder_bytes": limits.file_mb * mega,
        "folder_files": 1024,
        "limits": {
            "AS": limits.memory_mb * mega,
            "CPU": limits.cpu_s,
            "FSIZE": limits.file_mb * mega,
            "NOFILE": limits.open_files,
            "NPROC": limits.processes,
            "CORE": 0,
        },
    }


async def _output(process: Process, sent: bytes, limits: Limits) -> tuple[bytes, Ended]:
    assert process.stdin is not None
    assert process.stdout is not None
    output = bytearray()
    try:
        async with asyncio.timeout(limits.wall_s):
            with contextlib.suppress(ConnectionError):
                process.stdin.write(sent)
                await process.stdin.drain()
            process.stdin.close()
            while len(output) <= limits.output_bytes:
                more = await process.stdout.read(1 << 16)
                if not more:
                    await process.wait()
                    return bytes(output), "exit"
                output += more
    except TimeoutError:
        return bytes(output[: limits.output_bytes]), "time"
    return bytes(output[: limits.output_bytes]), "output"


async def _end(process: Process) -> None:
    """All of it: the supervisor ends what it supervises; its process group goes in any case."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE_S)
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    assert process.stdout is not None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_S):
            while await process.stdout.read(1 << 16):  # what nobody wants: so the pipe closes
                pass
