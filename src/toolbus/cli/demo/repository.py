"""The world on disk: a git repository with a history and a place to push to, and a recording."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from toolbus import AssistantMessage, ToolCall, UserMessage
from toolbus.messages.records import encode
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from toolbus.cli.demo.world import World
    from toolbus.messages.records import Message

_AUTHOR = {"NAME": "The Night Shift", "EMAIL": "night@shift.example"}


def check_programs() -> None:
    """Raise `UsageError` if this machine lacks what the demo runs."""
    missing = [name for name in ("git", "sh") if shutil.which(name) is None]
    if missing:
        raise UsageError(f"the demo needs git and a POSIX shell; not found: {', '.join(missing)}")


def shell_environment(folder: Path) -> dict[str, str]:
    """Return the environment of all commands: nothing of the person's settings, nothing asked."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "LC_ALL": "C",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(folder),
        "GIT_TERMINAL_PROMPT": "0",
        **{f"GIT_AUTHOR_{key}": value for key, value in _AUTHOR.items()},
        **{f"GIT_COMMITTER_{key}": value for key, value in _AUTHOR.items()},
    }


def make_repository(world: World, folder: Path) -> Path:
    """Write *world* into a repository below *folder* and return its path; raises `UsageError`."""
    root = folder / "repo"
    for path, text in world.files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (root / world.script).chmod(0o755)
    _git(folder, "init", "-q", "--bare", "origin.git")
    _git(folder, "init", "-q", "repo")
    # Not `init -b`, which git knows since 2.28 only.
    for name in ("origin.git", "repo"):
        _git(folder / name, "symbolic-ref", "HEAD", "refs/heads/main")
    for number, message in enumerate([f"Begin {world.service}", *world.commits]):
        if number:
            with (root / "CHANGES.md").open("a") as changes:
                changes.write(f"- {message}\n")
        date = (world.began - timedelta(days=len(world.commits) + 1 - number)).isoformat()
        _git(root, "add", ".")
        _git(root, "commit", "-q", "-m", message, date=date)
    _git(root, "remote", "add", "origin", "../origin.git")
    _git(root, "push", "-q", "-u", "origin", "main")
    return root


def _git(folder: Path, *arguments: str, date: str = "") -> None:
    """Run git in *folder*, for a commit of *date*."""
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date} if date else {}
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=shell_environment(folder) | dates,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode:
        reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise UsageError(f"git {' '.join(arguments)} failed: {reason}")


def prompt_of(world: World) -> str:
    """Return what the person asks for."""
    return f"The nightly import of {world.service} failed. Find out why, mend it and push."


def write_recording(world: World, path: Path) -> None:
    """Write the model's side of the session to *path* for `ReplayModel`, a message a line."""
    messages: list[Message] = [UserMessage(id="prompt", content=prompt_of(world))]
    numbers = count(1)
    for turn, (text, *calls) in enumerate(_turns(world), 1):
        message = AssistantMessage(
            id=f"answer-{turn}",
            content=text,
            tool_calls=tuple(
                [
                    ToolCall(id=f"call-{next(numbers)}", name=name, arguments=arguments)
                    for name, arguments in calls
                ]
            ),
            stop_reason="tool_calls" if calls else "stop",
        )
        messages.append(message)
    path.write_bytes(b"".join([encode(message) + b"\n" for message in messages]))


def _turns(world: World) -> list[tuple[Any, ...]]:
    """Return what the model says in each turn, and after it its calls: names and arguments."""
    script, log, limit = world.script, world.log, world.limit
    run, commit = f"sh {script}", f"git commit -q -a -m 'Send batches of {limit} rows'"
    return [
        (
            "I look at the errors, the settings and the history.",
            ("search_files", {"pattern": "ERROR", "path": "logs"}),
            ("read_file", {"path": world.config}),
            ("run_command", {"command": "git log"}),
        ),
        (
            "I read the whole log, and the one of the night before.",
            ("read_file", {"path": log}),
            ("read_file", {"path": f"{log}.1"}),
            ("list_files", {"path": "logs"}),
        ),
        ("I run the script to see it fail.", ("run_command", {"command": run})),
        (
            "I want a clean start.",
            ("run_command", {"command": "git reset --hard && git clean -fdx"}),
        ),
        (
            f"Then I only mend the script: batches of {limit} rows.",
            ("write_file", {"path": script, "text": world.mended_script}),
        ),
        ("I run it again.", ("run_command", {"command": run})),
        ("It works, so I commit and push.", ("run_command", {"command": commit})),
        ("Now the push.", ("run_command", {"command": "git push --force origin main"})),
        (f"The script sent {world.batch} rows at once, the server takes {limit}: mended.",),
    ]
