"""The topics of the guide, in the order in which they are best learned, and their pages."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

from toolbus.settings.usage_error import UsageError

# A name stands in one group, and its page in the file of that name beside this one.
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
        ("policy", "policy-recipes", "policy-tools", "approvals", "redaction", "redaction-limits"),
    ),
    (
        "Sessions that last",
        ("stores", "shutdown", "streaming"),
    ),
    (
        "Before it is in force",
        ("testing", "replay"),
    ),
    (
        "In programs of others",
        (
            "mcp",
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
        "Beneath it all",
        ("upgrading", "changelog", "security", "reading"),
    ),
    (
        "Coming from elsewhere",
        (
            "from-pydantic-ai",
            "from-langchain",
            "from-strands",
            "from-claude-agent-sdk",
            "from-fastmcp",
            "from-permission-rules",
        ),
    ),
)
"""Titles of groups, each with the names of its topics."""

TOPICS = tuple([name for _, names in GROUPS for name in names])
"""The names of all topics, in the order of the guide."""

_NEAR, _LIKENESS = 3, 0.75


class GuidePage(NamedTuple):
    """A page: the *name* of its topic, and *text*, its Markdown, of which the others are parts.

    *summary* is the sentence below the title: what somebody can do who has read it.
    """

    name: str
    title: str
    summary: str
    text: str


def read_page(name: str) -> GuidePage:
    """Return the page of the topic *name*; for another name `UsageError`, with near topics."""
    if name not in TOPICS:
        raise UsageError(f"no topic {name!r}{_near_topics(name)}; see `toolbus guide`")
    text = files("toolbus.cli.guide").joinpath(f"{name}.md").read_text("utf-8")
    title, summary, *_ = text.split("\n\n", 2)
    return GuidePage(name, title.removeprefix("# "), " ".join(summary.split()), text)


def _near_topics(word: str) -> str:
    """Return a hint at topics that look like *word*, else at those whose pages have it."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, rarely needed

    word = word.lower()
    parts = [name for name in TOPICS if word and word in name]
    if near := parts or get_close_matches(word, TOPICS, _NEAR, _LIKENESS):
        return f"; did you mean {' or '.join(map(repr, near[:_NEAR]))}?"
    counts = {name: read_page(name).text.lower().count(word) for name in TOPICS if word}
    if about := [name for name in sorted(counts, key=lambda name: -counts[name]) if counts[name]]:
        return f"; the word stands in {', '.join(about[:_NEAR])}"
    return f"; there is {', '.join(TOPICS)}"
