"""Lines about tools that mypy and pyright check; nothing runs them."""

from typing import Any, assert_type

from toolbus import ToolContext, tool


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


# --- a decorated function is called as it was written ---


@tool
def twice(number: int, times: int = 2) -> int:
    return number * times


@tool(name="later", timeout=3)
async def later(text: str) -> str:
    return text


class Files:
    """Has a tool among its methods."""

    @tool
    def size(self, path: str) -> int:
        return len(path)


async def calls() -> None:
    assert_type(twice(3), int)
    assert_type(twice(3, times=1), int)
    assert_type(await later("x"), str)
    assert_type(Files().size("x"), int)
    assert_type(tool(twice, name="double")(3), int)
    twice("3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    twice()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Files().size(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
