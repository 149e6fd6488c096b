"""Mistral Vibe, which wants a Python of its own, 3.12 or later: where one is, it is installed once.

It comes as a wheel, not by npm; who is second waits for who is first.
"""

import fcntl
import json
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.servers.fake_model import ModelCall

PACKAGE = "mistral-vibe==3.0.2"
OLDEST = (3, 12)
SECONDS = 600


@cache
def recent_python():
    """Return an interpreter that is recent enough, ours, of the PATH or beside ours; or None."""
    names = [f"python3.{minor}" for minor in range(20, OLDEST[1] - 1, -1)]
    beside = Path(sys.base_prefix).parent
    found = [sys.executable, *filter(None, map(shutil.which, names))]
    found += [str(path) for name in names for path in beside.glob(f"*/bin/{name}")]
    return next(filter(_is_recent, found), None)


def _is_recent(python):
    done = subprocess.run([python, "-V"], capture_output=True, text=True, timeout=60, check=False)
    version = re.search(r"Python (\d+)\.(\d+)", done.stdout)
    return (
        done.returncode == 0 and version is not None and tuple(map(int, version.groups())) >= OLDEST
    )


def installed():
    """Return the program; raises `RuntimeError` if it cannot be installed."""
    place = Path(sys.prefix, "share", "toolbus-tests")
    place.mkdir(parents=True, exist_ok=True)
    folder = place / PACKAGE.replace("==", "-")
    with (place / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run([recent_python(), "-m", "venv", folder])
            _run([folder / "bin/python", "-m", "pip", "install", "-q", PACKAGE])
            (folder / "installed").touch()
    return str(folder / "bin/vibe")


def _run(command):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{PACKAGE} cannot be installed:\n{done.stderr}")


class Vibe:
    """Mistral Vibe; what it runs of MCP servers goes through programs that the model writes."""

    name = "vibe"
    resumed = ("--continue",)
    fails_commands = False
    before, after, failed = "pre_tool", "post_tool", "post_tool"
    mcp = None

    def prepare(self, folders, url):
        """Write the host's configuration; return the variables that it needs."""
        text = f"""
active_model = "fake"
enable_telemetry = false
enable_update_checks = false

[[providers]]
name = "fake"
api_base = "{url}/v1"
api_key_env_var = "FAKE_KEY"
api_style = "openai"
backend = "generic"

[[models]]
name = "fake-model"
provider = "fake"
alias = "fake"
"""
        folders.write(".vibe/config.toml", text)
        # Or it asks the machine's keyring for ten seconds.
        null = "keyring.backends.null.Keyring"
        return {"FAKE_KEY": "unused", "PYTHON_KEYRING_BACKEND": null}

    def command(self, prompt):
        return [installed(), "--trust", "--auto-approve", "-p", prompt]

    def shell(self, command):
        return ModelCall("bash", {"command": command})

    def read(self, path):
        return ModelCall("read_file", {"path": str(path)})

    def write(self, path, text):
        return ModelCall("write_file", {"path": str(path), "content": text})

    def edit(self, path, old, new):
        texts = {"old_string": old, "new_string": new}
        return ModelCall("edit", {"file_path": str(path), **texts})

    def add_hook(self, folders, event, command):
        """Run *command* at *event*, beside what is there."""
        path = folders.home / ".vibe/hooks.toml"
        known = path.read_text("utf-8") if path.exists() else ""
        values = {
            "name": f"observer-{known.count('[[hooks]]')}",
            "type": event,
            "match": "*",
            "command": command,
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        folders.write(".vibe/hooks.toml", "\n".join([known, "[[hooks]]", *lines, ""]))
