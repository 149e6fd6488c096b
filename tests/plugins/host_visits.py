"""A coding agent with our hooks: installed by the real command, and what it left behind."""

import json
import os
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path

from tests.servers.terminal import run_as_person

from host_programs import PROGRAMS
from host_runs import HostFolders, run_host

FILES = Path(__file__).parents[1] / "hosts"
SECONDS = 120

OBSERVES = 'use = "{files}/house_rules.py:Observes"\nsettings.file = "{home}/observed.txt"'
FIRST = 'use = "{files}/house_rules.py:Rewrites"\nname = "first"\nsettings.word = "first"'
SECOND = 'use = "{files}/house_rules.py:Rewrites"\nname = "second"\nsettings.word = "second"'
CONTEXT = 'use = "{files}/house_rules.py:Context"'
BROKEN_GUARD = 'use = "{files}/house_rules.py:BrokenGuard"'
BROKEN_ADAPTER = 'use = "{files}/house_rules.py:BrokenAdapter"'
DIES = 'use = "{files}/house_rules.py:Dies"\nsettings.file = "{home}/died"'
SLEEPS = 'use = "{files}/house_rules.py:Sleeps"'
POLICY = 'use = "policy"\nsettings.file = "{files}/policy.toml"'
SECRETS = 'use = "redact-secrets"'
READING = """use = "policy"
[component.settings]
default = "allow"
project = "session"
tools = {{ Bash = {{ command = "command" }}, bash = {{ command = "command" }} }}
[[component.settings.rule]]
name = "reading"
verdict = "allow"
effects = ["read"]
"""
SKIPPING = f'{READING}prompt = "skip"'


def credential(seed):
    """Return what looks like a Stripe key, another one for each *seed*.

    Not a GitHub token: such a one Copilot CLI hides by itself.
    """
    letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
    return "sk_" + "live_" + "".join(random.Random(seed).choices(letters, k=24))


PLACEHOLDER = "key = [stripe-access-token-"
"""How a planted file reads after the redaction."""


class HostVisit:
    """The host *name* in a scratch home below *folder*, with the *components* in force.

    A context manager: what was started in the background ends with it.
    """

    def __init__(self, name, folder, *components, python=sys.executable):
        self.host, self.python = PROGRAMS[name], python
        self.folders = HostFolders(folder)
        self.configure(*components)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for line in self.worker_log:
            _, process, *words = line.split()
            if words == ["ready"]:
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)

    @property
    def home(self):
        return self.folders.home

    @property
    def project(self):
        return self.folders.project

    @property
    def state(self):
        """The folder of what toolbus keeps."""
        return self.home / ".local/state/toolbus"

    @property
    def worker_log(self):
        """The lines that workers wrote: time, process id, words."""
        file = self.state / "hooks.log"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    def configure(self, *components):
        """Let the user's own configuration have *components*."""
        tables = [
            f"[[component]]\n{each.format(files=FILES, home=self.home)}\n" for each in components
        ]
        self.folders.write(".config/toolbus/toolbus.toml", "\n".join(tables))

    def plant(self, name):
        """Write a file with a credential into the project; return the credential."""
        secret = credential(f"{self.host.name} {name}")
        (self.project / name).write_text(f"key = {secret}\n", "utf-8")
        return secret

    def toolbus(self, *words):
        """Run our command in the project, as the user does."""
        return run_as_person(
            words,
            python=[self.python, "-I"],
            cwd=self.project,
            env={"HOME": str(self.home), "PATH": os.defpath, "PYTHONUTF8": "1", "COLUMNS": "100"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )

    def install(self, *words):
        """Install our hooks for the host; *words* are further options."""
        done = self.toolbus("hosts", "install", self.host.name, "--yes", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        # A worker that is started when a test ends is not there for long.
        self.change_setting("idle", 30)

    def install_trusted(self):
        """Install our hooks, and let the host trust the project as far as it asks for that."""
        if self.host.name == "codex":
            file = self.home / ".codex/config.toml"
            table = f'\n[projects."{self.project}"]\ntrust_level = "trusted"\n'
            file.write_text(file.read_text("utf-8") + table, "utf-8")
        self.install()

    def change_setting(self, name, value):
        """Change what the installed hooks were given."""
        for file in self.state.glob("hooks/*/settings"):
            lines = file.read_text("utf-8").splitlines()
            new = [f"{name}={value}" if line.startswith(f"{name}=") else line for line in lines]
            assert new != lines
            file.write_text("\n".join([*new, ""]), "utf-8")

    def run(self, turns, prepare=None, prompt="run it"):
        """Return what became of one prompt; the host must have ended, and the model be content."""
        run = run_host(self.host, self.folders, turns, prepare or self.install, prompt)
        assert run.model.problems == [], run.output
        return run

    def stored(self, kind):
        """Return what the stored sessions hold of *kind*, "message" or "record", in their order."""
        file = str(self.state / "hooks.db")
        sessions = _lines(self.toolbus("sessions", file, "--json"))
        lines = [
            line
            for session in sessions
            for line in _lines(self.toolbus("show", file, session["id"], "--json"))
        ]
        return [line[kind] for line in lines if line["kind"] == kind]


def _lines(done):
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
