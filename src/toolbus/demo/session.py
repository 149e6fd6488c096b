"""The model's side of the session, recorded for one world and played back by `ReplayModel`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus import AssistantMessage, ToolCall, UserMessage
from toolbus.messages.records import encode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from toolbus.demo.world import World
    from toolbus.messages.records import Message

_Wish = tuple[str, dict[str, Any]]


def prompt_of(world: World) -> str:
    """Return what the person asks for."""
    return f"The nightly import of {world.service} failed. Find out why, mend it and push."


def write_session(world: World, path: Path) -> None:
    """Write the session of *world* to *path*, a message a line."""
    messages = [UserMessage(id="prompt", content=prompt_of(world)), *_answers(world)]
    path.write_bytes(b"".join([encode(message) + b"\n" for message in messages]))


def _answers(world: World) -> Iterator[Message]:
    numbers = iter(range(1, 100))
    for turn, (says, wishes) in enumerate(_turns(world), 1):
        calls = [
            ToolCall(id=f"call-{next(numbers)}", name=name, arguments=arguments)
            for name, arguments in wishes
        ]
        yield AssistantMessage(
            id=f"answer-{turn}",
            content=says,
            tool_calls=tuple(calls),
            stop_reason="tool_use" if calls else "end_turn",
        )


def _turns(world: World) -> list[tuple[str, list[_Wish]]]:
    script, log = world.script, world.log
    return [
        (
            "I look at the errors, the settings and the history.",
            [
                ("search_files", {"pattern": "ERROR", "path": "logs"}),
                ("read_file", {"path": world.config}),
                _command("git log"),
            ],
        ),
        (
            "I read the whole log, and the one of the night before.",
            [
                ("read_file", {"path": log}),
                ("read_file", {"path": f"{log}.1"}),
                ("list_files", {"path": "logs"}),
            ],
        ),
        ("I run the script to see it fail.", [_command(f"sh {script}")]),
        ("I want a clean start.", [_command("git reset --hard && git clean -fdx")]),
        (
            f"Then I only mend the script: batches of {world.limit} rows.",
            [("write_file", {"path": script, "text": world.mended_script})],
        ),
        ("I run it again.", [_command(f"sh {script}")]),
        (
            "It works, so I commit and push.",
            [_command(f"git commit -q -a -m 'Send batches of {world.limit} rows'")],
        ),
        ("Now the push.", [_command("git push --force origin main")]),
        (
            f"The script sent {world.batch} rows at once, the server takes {world.limit}: mended.",
            [],
        ),
    ]


def _command(command: str) -> _Wish:
    return "run_command", {"command": command}
