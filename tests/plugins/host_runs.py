"""One prompt to a coding agent, offline: scratch folders, a fake model, and what became of it."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.fake_model import FakeModel

from node_packages import NODE

SECONDS = 120
NOTES = Path(__file__).parents[1] / "servers/notes.py"


@dataclass
class HostFolders:
    """The scratch folders of one host: *home*, and in it the project that it works in."""

    home: Path
    project: Path = field(init=False)

    def __post_init__(self):
        self.project = self.home / "project"
        self.project.mkdir(parents=True, exist_ok=True)

    @property
    def server(self):
        """The command of an MCP server that reads files of the project."""
        return [sys.executable, "-I", str(NOTES), str(self.project)]

    def write(self, name, content):
        """Write a file below the home; what is no text is JSON."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content, indent=2)
        path.write_text(text, "utf-8")

    def merge(self, name, content):
        """Put the members of *content* into the JSON object of a file, lists behind lists."""
        path = self.home / name
        known = json.loads(path.read_text("utf-8")) if path.exists() else {}
        self.write(name, _merged(known, content))


def _merged(known, new):
    if isinstance(known, dict) and isinstance(new, dict):
        both = known.keys() & new.keys()
        return known | new | {key: _merged(known[key], new[key]) for key in both}
    return known + new if isinstance(known, list) else new


@dataclass(frozen=True)
class HostRun:
    """What became of one prompt: how the program ended, what it wrote, what it asked the model."""

    exit_code: int
    output: str
    model: FakeModel


def run_host(host, folders, turns, prepare=lambda: None, prompt="run it"):
    """Let *host* answer *prompt* with the model's *turns*; raise if it does not end in time.

    *prepare* is called when the host's own configuration is there.
    """
    with FakeModel(turns) as model:
        needed = host.prepare(folders, model.url)
        prepare()
        path = os.pathsep.join([str(Path(NODE).parent), os.defpath])
        process = subprocess.Popen(
            host.command(prompt),
            cwd=folders.project,
            env={"HOME": str(folders.home), "PATH": path, "LANG": "C.UTF-8", **needed},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=SECONDS)
        finally:
            # Its tools and servers, too; a worker of ours has left the group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return HostRun(process.returncode, output, model)
