"""What a person has to know, or to do, that no edit of a file does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.hosts.install.managed_settings import switch_warning

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_PROJECT_TRUST = {
    "codex": 'Codex reads hooks of a project only if it trusts that: `trust_level = "trusted"` in '
    "its config.toml, which Codex asks about when it starts there",
    "copilot": "Copilot CLI runs hooks of a project only in a folder that it trusts; it asks about "
    "that when it starts there",
    "gemini-cli": "where Gemini CLI's folder trust is on, it reads hooks of a project only in a "
    "folder that it trusts",
    "vibe": "Vibe reads hooks of a project only in a folder that it trusts; it asks about that "
    "when it starts there",
}
_ALWAYS = {
    "codex": "Codex skips, without a word, every hook whose hash it was not told to trust. The "
    "lines in its config.toml store that trust, as its own question would: writing them is your "
    "deed. Another hook in front of ours, or a change of ours, ends it: then install again",
    "claude-code": "Claude Code gives what a failed tool wrote to its model as it is, whatever a "
    "hook says: `toolbus doctor claude-code` tells the way round. The two variables keep it from "
    "sending large results away to be counted before any hook; so it does not refuse those as too "
    'long either, which `use = "truncate-output"` does',
    "cursor": "of Cursor only the documentation was read; it also runs the hooks of Claude Code, "
    "and no call is judged twice",
}


def install_notes(host: str, project: Path | None) -> Iterator[str]:
    """Yield, a sentence each, what goes with an installation for *host*."""
    if (warning := switch_warning(host)) is not None:
        yield warning
    if host in _ALWAYS:
        yield _ALWAYS[host]
    if project is not None and host in _PROJECT_TRUST:
        yield _PROJECT_TRUST[host]
    if project is not None and host != "claude-code":
        yield "the command names files of this machine: do not commit it"
