"""Lines about agents and what their runs give that mypy and pyright check; nothing runs them."""

from typing import Any, Literal, TypedDict, assert_type

from msgspec import Struct

from toolbus import Agent, events
from toolbus.events import ModelDelta, RunResult, TurnEnd
from toolbus.messages import ToolMessage


class City(Struct):
    name: str


class Country(TypedDict):
    cities: list[str]


async def outputs() -> None:
    assert_type(Agent("openai:m"), Agent[str])
    assert_type(Agent("openai:m", output_type=City, max_turns=3), Agent[City])
    assert_type((await Agent("openai:m").run("hi")).output, str)
    assert_type((await Agent("openai:m", output_type=str).run("hi")).output, str)
    agent = Agent("openai:m", output_type=City)
    assert_type((await agent.run("hi", context={"user": "u"})).output.name, str)
    assert_type((await agent.run("hi", output_type=list[int])).output, list[int])
    assert_type((await agent.run("hi", output_type=Country)).output, Country)
    assert_type((await agent.run("hi", output_type=Literal["a", "b"])).output, Any)
    assert_type(agent.run_sync("hi").output, City)
    assert_type(agent.run_sync("hi", output_type=str).output, str)
    assert_type(agent.run_sync("hi").raise_for_status(), RunResult[City])
    assert_type(await agent.resume(), RunResult[City])
    assert_type(await agent.resume(output_type=str), RunResult[str])
    assert_type(agent.resume_sync(context={"user": "u"}).output, City)
    assert_type(await agent.pending(), tuple[str, ...])
    print((await agent.run("hi")).output.age)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    Agent("openai:m", max_turn=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


async def pieces(agent: Agent[City]) -> None:
    async for piece in agent.stream("hi"):
        assert_type(piece, ModelDelta | ToolMessage | TurnEnd | RunResult[City])
    async for piece in agent.resume_stream():
        assert_type(piece, ModelDelta | ToolMessage | TurnEnd | RunResult[City])
    async for other in agent.stream("hi", output_type=int):
        assert_type(other, ModelDelta | ToolMessage | TurnEnd | RunResult[int])


def observed(agent: Agent, result: RunResult) -> None:
    assert_type(result.output, Any)
    observed(Agent("openai:m", output_type=City), agent.run_sync("hi"))
    agent.on(events.RUN_AFTER, lambda ctx: print(ctx.value.output))
