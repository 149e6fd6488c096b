"""Lines about tools that mypy and pyright check; nothing runs them."""

from typing import Any, assert_type

from toolbus import ToolContext


class Database:
    """What a program hands its tools."""

    def query(self, text: str) -> list[str]:
        return [text]


def find(word: str, context: ToolContext[Database]) -> list[str]:
    assert_type(context.deps, Database)
    context.deps = Database()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    return context.deps.query(word)


def plain(context: ToolContext) -> None:
    assert_type(context.deps, Any)


found = find("x", ToolContext(deps=Database()))
find("x", ToolContext(deps=3))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
