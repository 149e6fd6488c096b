"""The world on disk: a git repository made by git, with a history and a place to push to."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import timedelta
from typing import TYPE_CHECKING

from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from toolbus.demo.world import World

_NEEDED = ("git", "sh")
_AUTHOR = {"NAME": "The Night Shift", "EMAIL": "night@shift.example"}


def check_programs() -> None:
    """Raise `UsageError` if this machine lacks what the demo runs."""
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing:
        raise UsageError(f"the demo needs git and a POSIX shell; not found: {', '.join(missing)}")


def shell_environment(folder: Path) -> dict[str, str]:
    """Return the environment of all commands: nothing of the person's settings, nothing asked."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "LC_ALL": "C",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(folder),
        "GIT_TERMINAL_PROMPT": "0",
    }
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{who}_{key}": value for key, value in _AUTHOR.items()}
    return environment


def make_repository(world: World, folder: Path) -> Path:
    """Write *world* into a repository below *folder* and return its path; raises `UsageError`."""
    root = folder / "repo"
    for path, text in world.files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (root / world.script).chmod(0o755)
    git = _Git(folder)
    git("init", "-q", "--bare", "origin.git")
    git("init", "-q", "repo")
    # Not `init -b`, which git knows since 2.28 only.
    for one in ("origin.git", "repo"):
        git("-C", one, "symbolic-ref", "HEAD", "refs/heads/main")
    _write_history(world, root, git)
    git("-C", "repo", "remote", "add", "origin", "../origin.git")
    git("-C", "repo", "push", "-q", "-u", "origin", "main")
    return root


def _write_history(world: World, root: Path, git: _Git) -> None:
    git("-C", "repo", "add", ".")
    git("-C", "repo", "commit", "-q", "-m", f"Begin {world.service}", date=_date(world, 0))
    for number, message in enumerate(world.commits, 1):
        with (root / "CHANGES.md").open("a") as changes:
            changes.write(f"- {message}\n")
        git("-C", "repo", "add", "CHANGES.md")
        git("-C", "repo", "commit", "-q", "-m", message, date=_date(world, number))


def _date(world: World, number: int) -> str:
    days = len(world.commits) + 1 - number
    return (world.began - timedelta(days=days)).isoformat()


class _Git:
    """Runs git in *folder*."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._environment = folder, shell_environment(folder)

    def __call__(self, *arguments: str, date: str | None = None) -> None:
        environment = self._environment
        if date is not None:
            environment = environment | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        done = subprocess.run(
            ["git", *arguments],
            cwd=self._folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
        )
        if done.returncode:
            said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise UsageError(f"git {' '.join(arguments)} failed: {said}")
