"""What hostile programs try, and what becomes of it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from full_runs.tasks import sandbox
from full_runs.tasks.sandbox import Limits, Ran, SandboxError, check, run_python

LIMITS = Limits(wall_s=20.0, cpu_s=4)
OPEN = replace(LIMITS, isolated=False)


def can_isolate() -> str:
    if sys.platform != "linux":
        return "programs are shut in on Linux only"
    try:
        check(LIMITS)
    except SandboxError as error:
        return str(error)
    return ""


WHY_NOT = can_isolate()
isolated = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of processes are set on Linux only")
BOTH = pytest.mark.parametrize(
    "limits", [pytest.param(LIMITS, marks=isolated), pytest.param(OPEN, marks=linux)]
)


def ran(code: str, limits: Limits = LIMITS) -> Ran:
    return asyncio.run(run_python(code, limits))


def running(name: str) -> list[int]:
    """Processes whose name is this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            its = (folder / "comm").read_text()
        except OSError:
            continue
        if its.strip() == name:
            found.append(int(folder.name))
    return found


@BOTH
def test_a_program_runs_and_says_what_it_says(limits: Limits) -> None:
    assert ran("print(6 * 7)\nimport math\nprint(math.comb(5, 2))", limits) == Ran(
        output="42\n10\n", ended="exit", status=0
    )


@BOTH
def test_a_traceback_shows_the_program_alone(limits: Limits) -> None:
    made = ran("x = 1\nx / 0", limits)
    assert made.status == 1
    assert made.output.startswith(
        'Traceback (most recent call last):\n  File "<code>", line 2, in <module>\n'
    )
    assert made.output.endswith("ZeroDivisionError: division by zero\n")
    assert ran("x = (", limits).output.count("<string>") == 0


@BOTH
def test_an_infinite_loop_ends_at_its_processor_time(limits: Limits) -> None:
    made = ran("while True: pass", replace(limits, cpu_s=1))
    assert (made.ended, made.status) == ("exit", 128 + 9)


@BOTH
def test_a_sleeper_ends_at_its_wall_time_and_what_it_said_is_kept(limits: Limits) -> None:
    made = ran("print('here')\nimport time\ntime.sleep(1000)", replace(limits, wall_s=2.0))
    assert (made.output, made.ended) == ("here\n", "time")


@BOTH
def test_memory_is_limited(limits: Limits) -> None:
    made = ran("try: b'x' * (2 << 30)\nexcept MemoryError: print('no')", limits)
    assert made.output == "no\n"


@BOTH
def test_printing_without_end_is_cut(limits: Limits) -> None:
    made = ran("for _ in range(100): print('x' * (1 << 20))", replace(limits, output_bytes=1000))
    assert (made.output, made.ended) == ("x" * 1000, "output")


@BOTH
def test_nothing_is_inherited(limits: Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "word")
    with open(__file__) as held:
        os.set_inheritable(held.fileno(), True)
        code = (
            "import os, sys\n"
            "print('SECRET' in os.environ, sys.stdin.read() == '', os.listdir('.'))\n"
            "for number in range(3, 64):\n"
            "    try: print(number, os.fstat(number))\n"
            "    except OSError: pass\n"
        )
        assert ran(code, limits).output == "False True []\n"


@BOTH
@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("open('big', 'w').write('x' * (64 << 20))", "File too large|No space left"),
        ("held = [open('/dev/null') for _ in range(1000)]", "Too many open files"),
        ("import os; os.setuid(0)", "not permitted|Invalid argument"),
    ],
)
def test_files_are_limited_and_nobody_becomes_root(limits: Limits, code: str, says: str) -> None:
    if "setuid" in code and not limits.isolated:
        pytest.skip("without isolation a program is who the user is")
    made = ran(code, limits)
    assert made.status != 0
    assert any(word in made.output for word in says.split("|"))


@isolated
def test_a_fork_bomb_is_limited_and_gone() -> None:
    code = (
        "import ctypes, os, time\n"
        "ctypes.CDLL(None).prctl(15, b'bomb-of-test', 0, 0, 0)\n"
        "while True:\n"
        "    try: os.fork()\n"
        "    except OSError: print('no more', flush=True); break\n"
        "time.sleep(1000)\n"
    )
    made = ran(code, replace(LIMITS, wall_s=2.0, processes=8))
    assert made.ended == "time"
    assert 1 <= made.output.count("no more") <= 8
    assert not running("bomb-of-test")


@BOTH
def test_a_child_that_is_left_behind_ends_with_its_parent(limits: Limits) -> None:
    code = (
        "import ctypes, os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    ctypes.CDLL(None).prctl(15, b'left-of-test', 0, 0, 0)\n"
        "    if os.fork() == 0: time.sleep(1000)\n"
        "    os._exit(0)\n"
        "time.sleep(0.2)\n"
        "print('done')\n"
    )
    assert ran(code, limits).output == "done\n"
    assert not running("left-of-test")


@isolated
def test_no_file_of_ours_is_seen_and_the_system_cannot_be_written(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("word")
    secret.chmod(0o666)
    for path in (secret, Path(__file__), Path("/etc/passwd"), Path("/proc/1/environ")):
        assert "FileNotFoundError" in ran(f"open({str(path)!r}).read()").output, path
    for path in ("/new", "/usr/lib/new", f"{sys.base_prefix}/new", "/dev/new"):
        made = ran(f"open({path!r}, 'w')").output
        assert any(word in made for word in ("Read-only", "Permission", "No such file")), (path, made)


@isolated
def test_no_capability_comes_back() -> None:
    code = (
        "import ctypes\n"
        "kernel = ctypes.CDLL(None)\n"
        "print(kernel.unshare(0x10020000))\n"  # user and mounts
        "print(kernel.mount(b'none', b'/', None, ctypes.c_ulong(32 | 4096), None))\n"  # remount, to write
        "open('/usr/lib/new', 'w')\n"
    )
    below, remounted, *said = ran(code).output.splitlines()
    assert remounted == "-1"
    assert "Read-only file system" in said[-1]
    if os.access("/proc/sys/user/max_user_namespaces", os.W_OK):
        assert below == "-1"


@isolated
def test_no_network_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        assert "unreachable" in ran(code).output
        # The same call passes where it is not shut in: so the test can fail.
        assert ran(code, OPEN).status == 0


@BOTH
def test_a_program_that_deletes_its_folder_harms_itself_alone(limits: Limits) -> None:
    code = (
        "import os, shutil\n"
        "open('a', 'w').close()\n"
        "shutil.rmtree(os.getcwd(), ignore_errors=True)\n"
        "print('done')\n"
    )
    assert ran(code, limits).output == "done\n"
    assert ran("import os; print(os.listdir('.'))", limits).output == "[]\n"


@linux
def test_its_folder_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.tempfile, "tempdir", str(tmp_path))
    assert ran("open('a', 'w').close(); import os; print(os.getcwd())", OPEN).output.startswith(str(tmp_path))
    assert not list(tmp_path.iterdir())


@BOTH
def test_a_program_cannot_say_that_it_was_not_shut_in(limits: Limits) -> None:
    assert ran("print('sandbox: no'); raise SystemExit(125)", limits).status == 125


@BOTH
def test_a_run_that_is_given_up_leaves_nothing(limits: Limits) -> None:
    code = "import ctypes, time\nctypes.CDLL(None).prctl(15, b'given-of-test', 0, 0, 0)\ntime.sleep(1000)"

    async def given_up() -> None:
        task = asyncio.create_task(run_python(code, limits))
        until = time.monotonic() + 60
        while not running("given-of-test") and time.monotonic() < until:
            await asyncio.sleep(0.05)
        assert running("given-of-test")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(given_up())
    assert not running("given-of-test")


@isolated
def test_packages_are_seen_where_the_user_names_them(tmp_path: Path) -> None:
    (tmp_path / "of_the_user.py").write_text("value = 3\n")
    tmp_path.chmod(0o755)
    code = "import of_the_user; print(of_the_user.value)"
    assert ran(code, replace(LIMITS, packages=tmp_path)).output == "3\n"
    assert "ModuleNotFoundError" in ran(code).output


def test_other_systems_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SandboxError, match="namespaces; this is darwin"):
        ran("print(1)")


@linux
def test_a_kernel_that_gives_no_namespace_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = sandbox._command
    within = ["unshare", "--user", "--map-current-user", "sh", "-c"]
    if subprocess.run([*within, "true"], check=False, capture_output=True).returncode:
        pytest.skip(f"this kernel gives none to anybody: {WHY_NOT}")

    def without(limits: Limits, mark: str) -> list[str]:
        # The count of namespaces is of this user namespace alone.
        none = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
        return [*within, none, "sh", *command(limits, mark)]

    monkeypatch.setattr(sandbox, "_command", without)
    with pytest.raises(SandboxError, match=r"cannot be shut in here .*set isolated to false"):
        check(LIMITS)
    check(OPEN)


def test_a_program_that_is_too_long_is_refused() -> None:
    if sys.platform == "linux":
        with pytest.raises(ValueError, match="at most 262144 bytes, got 300000"):
            ran("#" * 300_000)
