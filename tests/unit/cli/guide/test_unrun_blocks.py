"""Which blocks of the guide no test runs, and what is true of the reasons."""

import re
from collections import Counter
from pathlib import Path

from tests.plugins.code_blocks import read_code_blocks
from tests.their_programs import NEEDED

import toolbus

FOLDER = Path(toolbus.__file__).parent / "cli/guide"
REASONS = [
    (path.stem, block.notes["not run"])
    for path in sorted(FOLDER.glob("*.md"))
    for block in read_code_blocks(path.name, path.read_text("utf-8"))
    if "not run" in block.notes
]


def test_few_blocks_are_not_run():
    theirs = [page for page, reason in REASONS if "tests.their_programs" in reason]
    others = [page for page, reason in REASONS if "tests.their_programs" not in reason]

    assert Counter(theirs) == Counter([*NEEDED, "from-fastmcp"])  # A server, and a proxy.
    assert sorted(others) == [
        *("agent-hooks", "bridges", "components"),
        *("contributing", "contributing", "contributing", "durable"),
        *("from-claude-agent-sdk", "from-fastmcp", "from-fastmcp", "from-google-adk"),
        *("from-langchain", "from-openai-agents", "from-pydantic-ai", "from-strands"),
        *("mcp", "policy-suggest", "policy-suggest", "shutdown", "testing", "ui", "ui"),
    ]


def test_what_others_need_is_what_is_installed():
    for page, reason in REASONS:
        for name in re.findall(r"needs (.+?);", reason):
            assert name.split(" and ") == list(NEEDED[page][0])
