"""What blocks of a page need beside Python: a person, programs of others, servers, our source.

Only the full suite has it. A comment above a block asks for it:
`<!-- person: {"PROMPT": "ANSWER"} -->` commands of ours run at a terminal at which this is typed,
`<!-- programs: NAME, NAME -->` these are on the `PATH`,
`<!-- server: ADDRESS -->` a server on this machine takes the place of this address,
`<!-- question: ID -->` the question that waits in `agent.db` has another id,
`<!-- alternatives: REASON -->` each line is run in a copy of the folder,
`<!-- source: FOLDER -->` the lines are one script beside a clone of our source, in an environment
of their own.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import venv
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from tests.servers.terminal import Terminal

import vibe_program
from node_packages import AGENTS, NODE, installed, program

NOTES = {"person", "programs", "server", "question", "alternatives", "source"}
SOURCE = Path(__file__).parents[2]
SECONDS = 300


class PageWorld:
    """What is beside the blocks that run in *folder*; *servers* has addresses by placeholder."""

    def __init__(self, folder, programs, servers):
        self.folder, self._programs, self._servers = folder, programs, servers

    def prepare(self, block):
        """Return *block* with what is there in place of what it names."""
        for name in block.notes.get("programs", "").split(", "):
            if name:
                put_program(self._programs / name)
        text = block.text
        if address := block.notes.get("server"):
            real = self._servers[address]
            text = text.replace(address, real if block.kind == "python" else shlex.quote(real))
        if prefix := block.notes.get("question"):
            text = text.replace(prefix, waiting_question(self.folder / "agent.db"))
        return replace(block, text=text)

    def run_line(self, line, block):
        """Run a *line* of ours at a terminal, and return its end, if *block* is for a person."""
        words = shlex.split(line, comments=True)
        if "person" not in block.notes or words[0] != "toolbus":
            return None
        others = copied(self.folder) if "alternatives" in block.notes else nullcontext(self.folder)
        with others as folder:
            environment = {**os.environ, "PAGER": "cat"}
            with Terminal(words[1:], cwd=folder, env=environment) as terminal:
                return terminal.answer(json.loads(block.notes["person"]))

    def run_script(self, block):
        """Run all lines of *block* beside a clone of our source."""
        clone = self.folder / block.notes["source"]
        environment = self.folder.parent / "environment"
        if not clone.exists():
            run(["git", "clone", "-q", SOURCE, clone], self.folder)
            venv.create(environment, with_pip=True)
        path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        names = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return run(["sh", "-ec", block.text], self.folder, {**names, "PATH": path})

    def close(self):
        """End the workers that hooks have started."""
        log = self.folder.parent / ".local/state/toolbus/hooks.log"
        for line in log.read_text("utf-8").splitlines() if log.exists() else []:
            _, process, *words = line.split()
            if words == ["ready"]:
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)


def run(command, folder, environment=None):
    """Return what *command* has printed; raise `AssertionError` if it fails."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout


def put_program(path):
    """Write at *path* what starts the coding agent of that name."""
    if path.name == "vibe":
        command = [vibe_program.installed()]
    elif path.name == "claude":
        command = [NODE, str(installed(AGENTS) / "@anthropic-ai/claude-code/cli-wrapper.cjs")]
    else:
        command = program(path.name, AGENTS)
    path.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
    path.chmod(0o755)


def waiting_question(store):
    """Return how the id of the question that waits in *store* begins."""
    done = run([sys.executable, "-m", "toolbus", "approvals", "--store", store, "--json"], ".")
    (question,) = [
        each for each in map(json.loads, done.splitlines()) if each["state"] == "pending"
    ]
    return question["id"]


@contextmanager
def copied(folder):
    """Give a copy of *folder*, with what stores in it hold."""
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy)
    try:
        yield copy
    finally:
        shutil.rmtree(copy)
