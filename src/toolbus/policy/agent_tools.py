"""Facts about the tools of coding agents, for a policy that says `coding_agents = true`.

By the names that their hooks use: Claude Code 2.1, Codex 0.169, Gemini CLI 0.61, Mistral Vibe 3.0,
Copilot CLI 1.0, OpenCode 1.18, pi 0.73, Cursor 2026.09, from the schemas that each sends to its
model. Their shells need no word: an argument called `command` is one. What starts another agent,
reaches the network or does what nobody knows is not here.
"""

from __future__ import annotations

from toolbus.policy.argument_names import FILE_WRITERS
from toolbus.policy.rules.tables import ToolFacts

_READS = ToolFacts(effects=("read",))
_WRITES = ToolFacts(effects=("write",))


def _searches(*names: str) -> ToolFacts:
    return ToolFacts(effects=("read",), trees=names)


AGENT_TOOLS: tuple[tuple[str, ToolFacts], ...] = (
    ("[Rr]ead", _READS),
    ("read_file", _READS),
    ("file_system.read*", _READS),
    ("view", _READS),
    ("view_image", _READS),
    ("[Ll][Ss]", _READS),
    ("list", _READS),
    ("list_directory", _READS),
    ("find", _READS),
    ("[Gg]lob", _READS),
    ("[Gg]rep", _searches("path", "paths", "glob", "include")),
    ("grep_search", _searches("path", "dir_path", "include_pattern")),
    ("read_many_files", _searches("include")),
    *[(name, _WRITES) for name in FILE_WRITERS],
    # Their own lists of things to do.
    ("Task[CGLU]*", _READS),
    ("*[Tt]odo*", _READS),
    ("update_plan", _READS),
)
