"""How is a program shut in on Linux? Run as a script, in a process of its own, by `sandbox`.

It takes namespaces of its own (mounts, network, processes, IPC), sees a read-only root that holds the
system's libraries and the interpreter and nothing else, has an empty folder in memory to work in, no
capabilities and no way to new privileges. Whatever it leaves running ends with it: the kernel ends a process
namespace with its first process. It imports the standard library only, and nothing of this project.

Exit statuses: `REFUSED` if the isolation is not to be had (why is on stdout, after the caller's mark); else
the program's own, or 128 and the signal that ended it.

References:
    https://man7.org/linux/man-pages/man7/namespaces.7.html
    https://man7.org/linux/man-pages/man2/pivot_root.2.html
    https://man7.org/linux/man-pages/man2/mount_setattr.2.html
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import struct
import sys
from pathlib import Path
from typing import Any, Final

REFUSED: Final = 125
NOBODY: Final = 65534
WORK: Final = "/work"
PACKAGES: Final = "/packages"
SYSTEM: Final = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache")
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom")
"""Nothing of the system is seen but these, where they exist."""

_NEW_MOUNTS, _NEW_UTS, _NEW_IPC, _NEW_USER = 0x00020000, 0x04000000, 0x08000000, 0x10000000
_NEW_PROCESSES, _NEW_NETWORK = 0x20000000, 0x40000000
_NOSUID, _NODEV, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 4096, 16384, 1 << 18
_DETACH, _HERE, _AT_RECURSIVE, _READ_ONLY = 2, -100, 0x8000, 1
_PIVOT_ROOT, _MOUNT_SETATTR = {"x86_64": (155, 442), "aarch64": (41, 442)}.get(os.uname().machine, (0, 0))
_PARENT_DEATH, _DUMPABLE, _NO_NEW_PRIVILEGES, _SUBREAPER = 1, 4, 38, 36

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

BOOT: Final = """\
import sys
sys.path.append("/packages")
def shown(kind, error, trace):
    sys.__excepthook__(kind, error.with_traceback(trace and trace.tb_next), None)
sys.excepthook = shown
exec(compile(sys.stdin.read(), "<code>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
"""
"""The program comes on stdin, so that its folder is empty; its traceback does not show this."""


def main(told: dict[str, Any]) -> int:
    """Shut in what comes on stdin, run it, end all of it."""
    isolated = bool(told["isolated"])
    _dies_with_parent()
    _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, _told_to_stop)
    try:
        if isolated:
            _namespaces()
    except OSError as error:
        return _refuse(error, told["mark"])
    first = os.fork()
    if not first:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os._exit(_first(told, isolated))
    try:
        status = os.waitpid(first, 0)[1]
    except InterruptedError:
        os.kill(first, signal.SIGKILL)
        status = os.waitpid(first, 0)[1]
    if not isolated:
        _end_descendants()
    return _code(status)


def _told_to_stop(*_: object) -> None:
    raise InterruptedError


def _first(told: dict[str, Any], isolated: bool) -> int:
    """The first process of the namespace: it waits for the program, and takes all with it when it ends."""
    try:
        _dies_with_parent()
        processes = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
        if isolated:
            _root(told)
        program = os.fork()
        if not program:
            _become(told, processes, isolated)
    except (OSError, ValueError) as error:
        return _refuse(error, told["mark"])
    while True:
        ended, status = os.wait()  # orphans come here too
        if ended == program:
            return _code(status)


def _namespaces() -> None:
    others = _NEW_MOUNTS | _NEW_UTS | _NEW_IPC | _NEW_PROCESSES | _NEW_NETWORK
    if os.geteuid():
        user, group = os.geteuid(), os.getegid()
        _call("unshare user namespaces", _libc.unshare(_NEW_USER | others))
        _map(os.open("/proc", os.O_PATH | os.O_DIRECTORY), user, group)
    else:
        _call("unshare namespaces", _libc.unshare(others))


def _map(processes: int, user: int, group: int) -> None:
    """In the new user namespace we are nobody, as whom we came."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{NOBODY} {user} 1"),
        ("gid_map", f"{NOBODY} {group} 1"),
    ):
        _write(processes, f"self/{name}", text)


def _write(processes: int, path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY, dir_fd=processes)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _root(told: dict[str, Any]) -> None:
    """A root of its own: read-only, with the system's libraries, the interpreter, and a folder to work in."""
    binds = [(path, path) for path in (*SYSTEM, *DEVICES, told["prefix"]) if os.path.exists(path)]
    if told["packages"]:
        binds.append((told["packages"], PACKAGES))
    sources = []
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    for path, inside in binds:
        # Held open: the new root is mounted over a folder that may hold one of them.
        sources.append((os.open(path, os.O_PATH), inside, os.path.isdir(path)))
    top = "/tmp"
    _mount("tmpfs", top, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=755")
    for source, inside, is_folder in sources:
        target = Path(top + inside)
        target.parent.mkdir(parents=True, exist_ok=True)
        if is_folder:
            target.mkdir(exist_ok=True)
        else:
            target.touch()
        _mount(f"/proc/self/fd/{source}", str(target), None, _BIND | _RECURSIVE)
        read_only = _READ_ONLY | _NOSUID | (0 if inside in DEVICES else _NODEV)
        _attributes(str(target), read_only)
    Path(top + WORK).mkdir()
    Path(top + "/old").mkdir()
    _call("pivot_root", _libc.syscall(_PIVOT_ROOT, top.encode(), (top + "/old").encode()))
    os.chdir("/")
    _call("umount", _libc.umount2(b"/old", _DETACH))
    os.rmdir("/old")
    size = f"size={told['folder_bytes']},nr_inodes={told['folder_files']},mode=777"
    _attributes("/", _READ_ONLY, recursive=False)
    _mount("tmpfs", WORK, "tmpfs", _NOSUID | _NODEV, size)


def _become(told: dict[str, Any], processes: int, isolated: bool) -> None:
    """Give up all privileges, take the limits, become the program."""
    if isolated:
        os.chdir(WORK)
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            _libc.prctl(_DUMPABLE, 1, 0, 0, 0)  # or its own files in /proc would be root's
            # Processes are counted for each user of each namespace: so the count is this program's alone.
            _call("unshare user namespaces", _libc.unshare(_NEW_USER))
            _map(processes, NOBODY, NOBODY)
        # In a namespace below ours it would have capabilities again, over little; where /proc can be written
        # to, it gets none.
        with contextlib.suppress(OSError):
            _write(processes, "sys/user/max_user_namespaces", "0")
    _call("no_new_privs", _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    for name, most in told["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    # -I -S: neither the user's own packages nor variables; an empty environment in any case.
    os.execve(told["python"], [told["python"], "-I", "-S", "-B", "-u", "-c", BOOT], {})


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [source.encode(), target.encode(), kind and kind.encode()]
    _call(f"mount {target}", _libc.mount(*words, ctypes.c_ulong(flags), data and data.encode()))


def _attributes(path: str, attributes: int, *, recursive: bool = True) -> None:
    record = struct.pack("QQQQ", attributes, 0, 0, 0)
    how = _AT_RECURSIVE if recursive else 0
    _call(
        f"mount_setattr {path}", _libc.syscall(_MOUNT_SETATTR, _HERE, path.encode(), how, record, len(record))
    )


def _call(what: str, returned: int) -> None:
    if returned:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _dies_with_parent() -> None:
    _libc.prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)


def _end_descendants() -> None:
    """Whoever lost its parent is ours by now; without a namespace of its own it may still run."""
    while True:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it ended just now
                parent = stat.read_text().rpartition(")")[2].split()[1]
                if int(parent) == os.getpid():
                    os.kill(int(stat.parent.name), signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _refuse(error: Exception, mark: str) -> int:
    # The mark is known to nobody else: a program cannot say that it was not shut in.
    print(f"{mark}{error}", flush=True)
    return REFUSED


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
