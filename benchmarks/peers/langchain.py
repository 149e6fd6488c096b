"""Wrappers of tool calls and records by LangChain."""

from __future__ import annotations

from typing import Any

from benchmarks.bench_records import TEXT, record
from benchmarks.handlers import functions
from benchmarks.harness import CannotError, Contender

_HANDLER = """
async def handler(self, request, execute):
    message = await execute(request)
    return message.model_copy(update={"content": text})
"""
_SYNC_HANDLER = _HANDLER.replace("async ", "").replace("await ", "")
LACKS = "a failure ends the call; no priorities; no check of what is returned"


def transform__raw(count: int) -> Contender:
    """Build the wrappers of middlewares, composed as an agent does it."""
    return _chain("langchain raw", count, traced=False)


def transform__as_shipped(count: int) -> Contender:
    """Build the same with the tracing wrapper that every agent puts around each of them."""
    return _chain("langchain as shipped", count, traced=True)


def transform_sync__raw(count: int) -> Contender:
    """Build the sync wrappers."""
    return _chain_sync("langchain raw", count, traced=False)


def transform_sync__as_shipped(count: int) -> Contender:
    """Build the sync wrappers with the tracing wrapper."""
    return _chain_sync("langchain as shipped", count, traced=True)


def _chain(name: str, count: int, *, traced: bool) -> Contender:
    from langchain.agents import factory
    from langchain.agents.middleware import AgentMiddleware

    wrappers = [
        type("Middle", (AgentMiddleware,), {"awrap_tool_call": handler})()
        for handler in functions(count, _HANDLER, text="42 files, 3 of them changed")
    ]
    chained = [
        _traced(one, "awrap_tool_call") if traced else one.awrap_tool_call for one in wrappers
    ]
    given, request = _request()

    async def execute(_: object) -> Any:
        return given

    # What an agent calls; nothing public composes wrappers without making an agent.
    names = {
        "chain": factory._chain_async_tool_call_wrappers(chained),  # noqa: SLF001 - as said
        "request": request,
        "execute": execute,
    }
    return Contender(name, "await chain(request, execute)", names, LACKS, count)


def _chain_sync(name: str, count: int, *, traced: bool) -> Contender:
    from langchain.agents import factory
    from langchain.agents.middleware import AgentMiddleware

    wrappers = [
        type("Middle", (AgentMiddleware,), {"wrap_tool_call": handler})()
        for handler in functions(count, _SYNC_HANDLER, text="42 files, 3 of them changed")
    ]
    chained = [_traced(one, "wrap_tool_call") if traced else one.wrap_tool_call for one in wrappers]
    given, request = _request()
    names = {
        "chain": factory._chain_tool_call_wrappers(chained),  # noqa: SLF001 - as above
        "request": request,
        "execute": lambda _: given,
    }
    return Contender(name, "chain(request, execute)", names, LACKS, count)


def _traced(middleware: Any, verb: str) -> Any:
    from langchain.agents import factory
    from langsmith import traceable

    options = factory._wrap_trace_kwargs(middleware)  # noqa: SLF001 - as `create_agent` does it
    return traceable(name=f"{middleware.name}.{verb}", **options)(getattr(middleware, verb))


def _request() -> tuple[Any, Any]:
    from langchain.agents.middleware import ToolCallRequest
    from langchain_core.messages import ToolMessage

    given = ToolMessage(content="?", tool_call_id="c-1", name="read")
    call = {"name": "read", "args": {}, "id": "c-1", "type": "tool_call"}
    return given, ToolCallRequest(tool_call=call, tool=None, state={}, runtime=None)


def records(operation: str) -> Contender:
    """Build an operation on LangChain's `ToolMessage`."""
    if operation == "hash":
        raise CannotError("its messages have no hash")
    from langchain_core.messages import ToolMessage

    def create(number: int) -> ToolMessage:
        return ToolMessage(
            content=f"{TEXT} {number}", id=f"m-{number}", tool_call_id=f"c-{number}", name="read"
        )

    names = {
        "create": create,
        "one": create(1),
        "encode": lambda one: one.model_dump_json().encode(),
        "decode": ToolMessage.model_validate_json,
        "data": create(1).model_dump_json().encode(),
    }
    statements = {"replace": 'one.model_copy(update={"content": "other"})'}
    lacks = "is mutable and has no hash; a copy is not checked"
    return record("langchain ToolMessage", operation, names, lacks, statements)
