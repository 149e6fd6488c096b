"""Replaying a recording: what it costs beside decoding and encoding its messages."""

from __future__ import annotations

import tempfile
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import OURS, Contender, Figure, Rig, table
from toolbus import AgentComponent, ToolAdapter
from toolbus.cli.output.replay_report import JsonReport
from toolbus.cli.output.stream import Output, ProgressLine
from toolbus.components.participants import ComponentHost
from toolbus.config.targets import LoadedTarget
from toolbus.formats.native import EndLine, HeaderLine, MessageLine, SessionLine, encode_line
from toolbus.messages import (
    AssistantMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    decode,
    encode,
)
from toolbus.replay import Replay
from toolbus.replay.sources import find_sources, read_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.messages import Message

BASELINE = "decode and encode"
READING = "reading the lines"
BARE = "replay, no handler"
TURNS = 100
LINE = "the quick brown fox jumps over the lazy dog, line by line\n"


@table("µs", baseline=BASELINE)
def bench_replay(rig: Rig) -> None:
    """Replaying through three adapters takes at most three times decoding and encoding."""
    messages = list(recording(TURNS))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "recording.jsonl"
        file.write_bytes(exported(messages))
        builds = [
            (BASELINE, lambda: coded(messages)),
            (READING, lambda: lines(file)),
            (BARE, lambda: replayed(BARE, file, adapters=0)),
            (OURS, lambda: replayed(OURS, file, adapters=3)),
        ]
        rig.race("one message", builds)
    if not rig.once:
        per_message = 1e3 * len(messages)
        rig.figures = [
            Figure(one.row, one.contender, (one.value or 0.0) / per_message) for one in rig.figures
        ]


def recording(turns: int) -> Iterator[Message]:
    """Give the messages of an agent that reads files of 2 KB."""
    for at in range(turns):
        yield UserMessage(id=f"u-{at}", content=f"please look at file {at}, and say what is in it")
        call = ToolCall(id=f"c-{at}", name="read", arguments={"path": f"src/{at}.py", "limit": 40})
        usage = {"input_tokens": 1_200, "output_tokens": 60}
        yield AssistantMessage(id=f"a-{at}", content="I look.", tool_calls=(call,), usage=usage)
        response = ToolResponse(
            content=(TextPart(text=LINE * 36),),
            tool_name=call.name,
            tool_call_id=call.id,
            parameters=call.arguments,
            duration_ns=1_000,
        )
        yield ToolMessage(
            id=f"t-{at}", tool_call_id=call.id, tool_name=call.name, tool_response=response
        )
        yield AssistantMessage(id=f"b-{at}", content="It speaks of a fox.", usage=usage)


def exported(messages: list[Message]) -> bytes:
    """Return *messages* as `toolbus export` writes them."""
    body = [MessageLine(message=one) for one in messages]
    end = EndLine(messages=len(messages), records=0)
    return b"".join(map(encode_line, [HeaderLine(), SessionLine(id="s"), *body, end]))


def coded(messages: list[Message]) -> Contender:
    """Build the baseline: each message from its bytes and back."""
    names = {"encode": encode, "decode": decode, "data": [encode(one) for one in messages]}
    lacks = "reads no file, runs no handler"
    return Contender(BASELINE, "[encode(decode(one)) for one in data]", names, lacks)


def lines(file: Path) -> Contender:
    """Build the reading alone."""

    async def read() -> None:
        for _ in read_sources(find_sources([str(file)])[0]):
            pass

    return Contender(READING, "await read()", {"read": read}, "runs no handler")


def replayed(name: str, file: Path, *, adapters: int) -> Contender:
    """Build a replay through a component with so many adapters, which leave all as it is."""
    stage, component = ComponentHost(), AgentComponent()
    for _ in range(adapters):
        component.register_tool_adapter(Same())
    if adapters:
        component.setup(stage)

    async def replay() -> None:
        report = JsonReport(Output(StringIO()), ProgressLine(Output(StringIO())))
        found = LoadedTarget(stage.bus, "bench", "component", stage)
        await Replay(found, report, collect=False).run(read_sources(find_sources([str(file)])[0]))

    return Contender(name, "await replay()", {"replay": replay}, "")


class Same(ToolAdapter):
    """An adapter that looks at everything."""

    def adapt_parameters(self, call: ToolCall) -> None:
        """Leave the call as it is."""

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:  # noqa: ARG002
        """Leave the response as it is."""
        return response.map_text(str)
