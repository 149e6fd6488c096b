"""Runs the programs of the guide that need other libraries, each in an environment of its own.

`python -m tests.their_programs [PAGE…]` installs the newest version of each library under
`.venv-theirs`, runs the program of the page with it on a model on this machine, and ends with 1 if
one does not do what ours does.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "plugins"))

from peer_programs import (
    assert_proxy_refuses_and_hides,
    assert_refused_and_hidden,
    deleting_model,
    read_programs,
)

PLACE = Path(__file__).parents[1] / ".venv-theirs"
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "ENABLE_TOOL_SEARCH": "false",  # Else the SDK's model is offered its tools only on request.
    "IS_SANDBOX": "1",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}

# What pip installs, and what the page's tool is called before the model.
NEEDED = {
    "from-pydantic-ai": (("pydantic-ai-slim[anthropic]",), "delete"),
    "from-langchain": (("langchain", "langchain-anthropic"), "delete"),
    "from-openai-agents": (("openai-agents",), "delete"),
    "from-strands": (("strands-agents[anthropic]",), "delete"),
    "from-google-adk": (("google-adk", "anthropic"), "delete"),
    "from-claude-agent-sdk": (("claude-agent-sdk",), "mcp__files__delete"),
    "from-fastmcp": (("fastmcp",), None),
}


def main(pages: list[str]) -> int:
    """Run the programs of *pages*, or of all; return the exit code."""
    failed = 0
    for page in pages or NEEDED:
        requirements, tool = NEEDED[page]
        python = prepare(page, requirements)
        try:
            run(python, read_programs(page)[0], tool) if tool else run_proxy(python, page)
        except (AssertionError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"{page}: {type(error).__name__}: {error}")
        else:
            print(f"{page}: it does what ours does")
    return 1 if failed else 0


def prepare(page: str, requirements: tuple[str, ...]) -> str:
    """Return the interpreter of an environment with *requirements*; it is made once."""
    folder = PLACE / page
    if not folder.is_dir():
        venv.create(folder, with_pip=True)
    python = str(folder / "bin/python")
    subprocess.run([python, "-m", "pip", "install", "-q", *requirements], check=True)
    return python


def run(python: str, program: str, tool: str) -> None:
    """Run *program* on a model that calls *tool*; raise `AssertionError` if it does otherwise."""
    with tempfile.TemporaryDirectory() as folder, deleting_model(tool) as model:
        path = Path(folder, "program.py")
        path.write_text(program)
        names = {
            "ANTHROPIC_API_KEY": "unused",
            "ANTHROPIC_BASE_URL": model.url,
            "HOME": folder,
            "OPENAI_API_KEY": "unused",
            "OPENAI_BASE_URL": f"{model.url}/v1",
        }
        done = subprocess.run(
            [python, str(path)],
            cwd=folder,
            env={**os.environ, **QUIET, **names},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert_refused_and_hidden(model, done.stdout)


def run_proxy(python: str, page: str) -> None:
    """Run the server and the proxy of *page*; raise `AssertionError` if a client gets another."""
    server, proxy, _ = read_programs(page)
    with tempfile.TemporaryDirectory() as folder:
        for name, program in (("server.py", server), ("proxy.py", proxy)):
            Path(folder, name).write_text(program)
        with contextlib.chdir(folder):
            asyncio.run(assert_proxy_refuses_and_hides(python, "proxy.py"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
