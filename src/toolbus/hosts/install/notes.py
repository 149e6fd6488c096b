"""Notes on an installation: what a person has to know or to do, and no edit of a file does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.hosts.dialects import dialect
from toolbus.hosts.doctor.vendors import switch_warning
from toolbus.hosts.install.host_files import HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def install_notes(host: str, project: Path | None) -> Iterator[str]:
    """Yield, a sentence each, what goes with an installation for *host*."""
    files = HOSTS[host]
    if (warning := switch_warning(host)) is not None:
        yield warning
    if not files.version:
        yield untried(host)
    if files.note:
        yield files.note
    if project is not None and files.project_note:
        yield files.project_note
    if project is not None and files.is_committed:
        yield "the command names files of this machine: do not commit it"


def untried(host: str) -> str:
    """Return the sentence that no version of *host* was run."""
    title = dialect(host).title
    return f"{title} is untried: its documentation was read, and no version of it was run"
