"""The topics of the guide in the order to learn them, and their pages."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

from toolbus.settings.usage_error import UsageError

# Each name is in one group, and its page is the Markdown file of that name in this folder.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "An agent of your own",
        (
            "first-agent",
            "run",
            "models",
            "handlers",
            "adapters",
            "components",
            "truncation",
            "failures",
        ),
    ),
    (
        "Rules and secrets",
        (
            "policy",
            "policy-recipes",
            "policy-tools",
            "policy-suggest",
            "flow",
            "approvals",
            "redaction",
            "redaction-limits",
        ),
    ),
    ("Sessions", ("stores", "chain", "durable", "ui", "shutdown", "streaming", "opentelemetry")),
    (
        "Tests",
        ("testing", "replay"),
    ),
    (
        "In other programs",
        (
            "mcp",
            "bridges",
            "agent-hooks",
            "hosts",
            "claude-code",
            "codex",
            "copilot",
            "gemini-cli",
            "vibe",
            "opencode",
            "pi",
            "cursor",
        ),
    ),
    (
        "Versions, security and development",
        ("upgrading", "changelog", "security", "reading", "contributing"),
    ),
    (
        "From other libraries",
        (
            "from-pydantic-ai",
            "from-langchain",
            "from-openai-agents",
            "from-strands",
            "from-google-adk",
            "from-claude-agent-sdk",
            "from-fastmcp",
            "from-permission-rules",
        ),
    ),
)
"""The groups: a title, and the names of the topics."""

TOPICS = tuple([name for _, names in GROUPS for name in names])
"""The names of all topics, in the order of the guide."""

_NEAR, _LIKENESS = 3, 0.75


class GuidePage(NamedTuple):
    """A page: the *name* of its topic, and its Markdown in *text*.

    *title* and *summary*, the sentence below it, are parts of the text.
    """

    name: str
    title: str
    summary: str
    text: str


def read_page(name: str) -> GuidePage:
    """Return the page of the topic *name*; raises `UsageError`, which names similar topics."""
    if name not in TOPICS:
        raise UsageError(f"no topic {name!r}{_near_topics(name)}; see `toolbus guide`")
    text = files("toolbus.cli.guide").joinpath(f"{name}.md").read_text("utf-8")
    title, summary, *_ = text.split("\n\n", 2)
    return GuidePage(name, title.removeprefix("# "), " ".join(summary.split()), text)


def _near_topics(word: str) -> str:
    """Return a hint at the topics similar to *word*, else at the pages that contain it."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, rarely needed

    word = word.lower()
    parts = [name for name in TOPICS if word and word in name]
    if near := parts or get_close_matches(word, TOPICS, _NEAR, _LIKENESS):
        return f"; did you mean {' or '.join(map(repr, near[:_NEAR]))}?"
    counts = {name: read_page(name).text.lower().count(word) for name in TOPICS if word}
    if about := [name for name in sorted(counts, key=lambda name: -counts[name]) if counts[name]]:
        return f"; the word is in {', '.join(about[:_NEAR])}"
    return f"; topics: {', '.join(TOPICS)}"
