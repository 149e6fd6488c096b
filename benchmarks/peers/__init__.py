"""Who else is measured: one file each, with one function per table that it takes part in."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.harness import Build


class Peer(NamedTuple):
    """A peer: its file here, what pip installs ("" of what Python brings), and how it is imported.

    *hooks* is the import of the part that stands beside our bus.
    """

    module: str
    requirement: str
    hooks: str


PEERS = (
    Peer("blinker", "blinker", "import blinker"),
    Peer("psygnal", "psygnal", "import psygnal"),
    Peer("pluggy", "pluggy", "import pluggy"),
    Peer("pyee", "pyee", "import pyee.asyncio"),
    Peer("django", "django", "import django.dispatch"),
    Peer("aiosignal", "aiosignal", "import aiosignal"),
    Peer("bubus", "bubus", "import bubus"),
    Peer("strands", "strands-agents", "import strands.hooks"),
    Peer("adk", "google-adk", "import google.adk.plugins"),
    Peer("fastmcp", "fastmcp", "import fastmcp.server.middleware"),
    Peer("langchain", "langchain", "import langchain.agents.middleware"),
    Peer("langgraph", "langgraph", "import langgraph.prebuilt"),
    Peer("pydantic_ai", "pydantic-ai-slim", "import pydantic_ai.tool_manager"),
    Peer("openai_agents", "openai-agents", "import agents"),
    Peer("dataclasses", "", "import dataclasses"),
    Peer("attrs", "attrs", "import attrs"),
    Peer("pydantic", "pydantic", "import pydantic"),
)


def contenders(table: str, *arguments: object) -> Iterator[tuple[str, Build]]:
    """Give the peers' contenders for *table*, by name; each is built where it is timed."""
    for peer in PEERS:
        module = import_module(f"benchmarks.peers.{peer.module}")
        for name, build in vars(module).items():
            if name == table or name.startswith(f"{table}__"):
                yield (
                    (peer.requirement or peer.module)
                    + name[len(table) :].replace("__", " ").replace("_", " "),
                    partial(build, *arguments),
                )
