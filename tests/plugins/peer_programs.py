"""The programs of the guide's pages on coming from elsewhere, and what each of them must do."""

from pathlib import Path

from tests.servers.fake_model import FakeModel, ModelCall

import toolbus
from code_blocks import CodeBlock, read_code_blocks
from toolbus import Agent
from toolbus.mcp import client
from toolbus.models import ScriptedModel

GUIDE = Path(toolbus.__file__).parent / "cli/guide"

AGENTS = (
    "from-pydantic-ai",
    "from-langchain",
    "from-openai-agents",
    "from-strands",
    "from-google-adk",
    "from-claude-agent-sdk",
)
"""Pages whose programs are agents."""

ANSWER = "build/a.log is gone; the other I may not."
REASON, HIDDEN, SHOWN = "only inside the project", "db1.internal", "deleted build/a.log on HOST"


KEPT = "kept.py"
"""The name of a page's program that keeps the other library, with components of toolbus."""


def read_programs(page: str) -> list[str]:
    """Return the compared Python programs of *page*, in order; ours is the last one."""
    return [block.text for block in _python_blocks(page) if block.file != KEPT]


def read_kept_program(page: str) -> str:
    """Return the program of *page* that keeps the other library."""
    return next(block.text for block in _python_blocks(page) if block.file == KEPT)


def _python_blocks(page: str) -> list[CodeBlock]:
    blocks = read_code_blocks(page, GUIDE.joinpath(f"{page}.md").read_text("utf-8"))
    return [block for block in blocks if block.kind == "python"]


def deleting_model(tool: str) -> FakeModel:
    """Return a model that calls *tool* with a path outside of the project and one inside."""
    calls = [ModelCall(tool, {"path": path}) for path in ("/etc/passwd", "build/a.log")]
    return FakeModel([calls, ANSWER])


def assert_refused_and_hidden(model: FakeModel, printed: str) -> None:
    """Compare what the model was given, and what was printed, with what each program must do."""
    assert model.problems == []
    assert model.result(0, 0).endswith(REASON)
    assert model.result(0, 1) == SHOWN
    assert model.leaks(HIDDEN) == []
    assert printed.strip() == ANSWER


async def assert_proxy_refuses_and_hides(command: str, *words: str) -> None:
    """Compare what a client gets of the proxy that *command* starts with what it must be."""
    async with client.tools(command, words) as files:
        agent = Agent(ScriptedModel([]), tools=[files])
        outside = (await agent.call_tool("delete", path="/etc/passwd")).response
        inside = (await agent.call_tool("delete", path="build/a.log")).response
    assert (outside.is_error, outside.text) == (True, REASON)
    assert (inside.is_error, inside.text, inside.structured) == (False, SHOWN, {"result": SHOWN})
