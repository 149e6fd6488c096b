"""Who looks for secrets: we, and others on the same input.

A scanner has found what a text holds if it reports anything in it at all; from ours the secret must
be gone, to the last letter.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from benchmarks.harness import CannotError
from toolbus.messages import ToolResponse
from toolbus.messages.text_walker import rewrite_response
from toolbus.redaction.secrets.engine import Engine
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import builtin, choose

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ABSENT = {"betterleaks": "a Go program; no registry of Python, Node or Debian has it"}

_PLACEHOLDER = re.compile(r"\[[a-z0-9-]+-\d+(?:-[a-z2-7]{6})?\]")


class Scanner(Protocol):
    """Somebody who looks for secrets."""

    name: str
    lacks: str

    def flags(self, texts: Sequence[str], secrets: Sequence[str]) -> list[bool]:
        """Tell of each text whether its secret was found; "" stands for any."""

    def count(self, files: Sequence[Path]) -> int:
        """Return how many secrets are said to be in *files*."""

    def seconds(self, text: str) -> float:
        """Return the seconds of a processor's time in which *text* is looked through."""


class Ours:
    """Toolbus, with all rules or without our own."""

    lacks = ""

    def __init__(self, name: str = "toolbus", *, published_only: bool = False) -> None:
        self.name, self._published_only = name, published_only

    def cleaned(self, texts: Sequence[str]) -> list[str]:
        """Return the texts as they come out, each in a session of its own."""
        return [self._cleaned(text) for text in texts]

    def flags(self, texts: Sequence[str], secrets: Sequence[str]) -> list[bool]:
        """Tell of each text whether its secret is gone; "" stands for any."""
        return [
            (secret not in clean) if secret else clean != text
            for clean, text, secret in zip(self.cleaned(texts), texts, secrets, strict=True)
        ]

    def count(self, files: Sequence[Path]) -> int:
        """Return how many placeholders stand in each file in the end, each counted once."""
        texts = [path.read_text("utf-8", errors="replace") for path in files]
        found = [
            {*_PLACEHOLDER.findall(self._cleaned(text))} - {*_PLACEHOLDER.findall(text)}
            for text in texts
        ]
        return sum(map(len, found))

    def seconds(self, text: str) -> float:
        """Return the seconds in which a response of *text* is cleaned."""
        redactor, response = self._redactor(), ToolResponse.from_text(text)
        return _spent(lambda: redactor.clean("s", response, rewrite_response))

    @cached_property
    def _engine(self) -> Engine:
        without = {one.name for one in builtin()} if self._published_only else set()
        # Both sets name some of their rules alike.
        rules = [one for one in choose((), (), {}) if not (without and one in builtin())]
        return Engine(tuple(rules))

    def _redactor(self) -> Redactor:
        return Redactor(self._engine, chars=10**9, seconds=10**6)

    def _cleaned(self, text: str) -> str:
        response = ToolResponse.from_text(text)
        return self._redactor().clean("s", response, rewrite_response).text


class DetectSecrets:
    """Yelp's detect-secrets, as its command scans files; without asking anybody on the network."""

    name, lacks = "detect-secrets", ""

    def __init__(self) -> None:
        # It may not be there, and then this is the place to say so.
        from detect_secrets import SecretsCollection  # noqa: PLC0415
        from detect_secrets.settings import default_settings  # noqa: PLC0415

        self._collection, self._settings = SecretsCollection, default_settings

    def flags(self, texts: Sequence[str], _: Sequence[str]) -> list[bool]:
        """Tell of each text whether anything is reported in it."""
        with tempfile.TemporaryDirectory() as folder:
            return [self._found(path) > 0 for path in _written(folder, texts)]

    def count(self, files: Sequence[Path]) -> int:
        """Return how many secrets are reported."""
        return sum([self._found(path) for path in files])

    def seconds(self, text: str) -> float:
        """Return the seconds for the whole of *text*, by a 32nd of it."""
        with tempfile.TemporaryDirectory() as folder:
            (path,) = _written(folder, [text[: len(text) // 32]])
            return 32 * _spent(lambda: self._found(path))

    def _found(self, path: Path) -> int:
        with self._settings():
            collection = self._collection()
            collection.scan_file(str(path))
            return len([secret for _, secret in collection])


class Kingfisher:
    """MongoDB's kingfisher: the same published rules with their filters, on another engine."""

    name, lacks = "kingfisher", "a process for each scan"

    def __init__(self) -> None:
        found = shutil.which("kingfisher", path=str(Path(sys.executable).parent))
        if found is None:
            raise CannotError("kingfisher-bin is not installed")
        self._command = found

    def flags(self, texts: Sequence[str], _: Sequence[str]) -> list[bool]:
        """Tell of each text whether anything is reported in it."""
        with tempfile.TemporaryDirectory() as folder:
            paths = _written(folder, texts)
            found = set(self._reported(folder))
        return [path.name in found for path in paths]

    def count(self, files: Sequence[Path]) -> int:
        """Return how many secrets are reported."""
        with tempfile.TemporaryDirectory() as folder:
            for number, path in enumerate(files):
                shutil.copy(path, Path(folder, f"{number}.py"))
            return len(self._reported(folder))

    def seconds(self, text: str) -> float:
        """Return the seconds of a process that scans *text*."""
        with tempfile.TemporaryDirectory() as folder:
            _written(folder, [text])
            return _spent(lambda: self._reported(folder))

    def _reported(self, folder: str) -> list[str]:
        """Return the name of the file of each finding."""
        options = "--no-validate --no-update-check --no-dedup --git-history none --format jsonl"
        command = [self._command, "scan", folder, *options.split(), "--confidence", "low"]
        # It ends with 200 when it has found something.
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return [Path(one["finding"]["path"]).name for one in lines if "finding" in one]


BUILDS = {"toolbus": Ours}


def _spent(work: Callable[[], object]) -> float:
    """Return the processor's seconds for *work*, its processes included.

    Not those of the clock: half of these scanners take a minute, and others work here as well.
    """
    before = os.times()
    work()
    return sum(after - begun for after, begun in zip(os.times()[:4], before[:4], strict=True))


def _written(folder: str, texts: Sequence[str]) -> list[Path]:
    paths = [Path(folder, f"{number}.txt") for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text + "\n", "utf-8")
    return paths
