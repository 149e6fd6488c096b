"""A host's program, asked for its version and for what it thinks of its hooks."""

from __future__ import annotations

import re
import subprocess
import tempfile

_WAIT = 20
"""Seconds; a program that takes longer is not asked again."""
_VERSION = re.compile(rb"\d+\.\d+(?:[.+-]?\w+)*")


def program_version(program: str) -> str | None:
    """Return what *program* says of its version; None if it does not say."""
    # From nowhere in particular: a project may configure programs.
    with tempfile.TemporaryDirectory(prefix="toolbus-") as folder:
        try:
            ended = subprocess.run(  # noqa: S603 - the person's own program
                [program, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd=folder,
                check=False,
                timeout=_WAIT,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
    match = _VERSION.search(ended.stdout + ended.stderr)
    return None if match is None else match[0].decode()
