"""What reaches a host's model without any event of its hooks, so that nobody could clean it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_MENTIONED = (
    "a file that a prompt names with @ is read into the prompt, and no hook is told of its text: "
    "let the model read it by a tool instead"
)
_LASTING = (
    "what a command has written when Codex stops waiting for it goes to the model, and no hook is "
    "told of it before the command ends: let long commands write to a file that is read afterwards"
)

UNSEEN_TEXTS: Mapping[str, tuple[str, ...]] = {
    "claude-code": (_MENTIONED,),
    "codex": (_LASTING,),
    "gemini-cli": (_MENTIONED,),
    "vibe": (_MENTIONED,),
}
"""By host, as runs of the versions that `host_files` names showed; a sentence each."""
