"""A model that plays the assistant's side of a recorded session, while the tools run for real."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.errors import DecodeError
from toolbus.messages.records import AssistantMessage, decode
from toolbus.models.scripted import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.messages.records import Message


class ReplayModel(ScriptedModel):
    """Gives the assistant messages of *messages*, in order; the other roles are passed over."""

    def __init__(self, messages: Iterable[Message], *, name: str = "replay") -> None:
        answers = (message for message in messages if isinstance(message, AssistantMessage))
        super().__init__(answers, name=name)

    @classmethod
    def from_file(cls, path: str | Path, *, name: str = "replay") -> ReplayModel:
        """Read a session from a file of JSON lines, a message a line.

        Raises `DecodeError`, with the number of the line, before anything is played.
        """
        return cls(tuple(read_lines(Path(path))), name=name)


def read_lines(path: Path) -> Iterator[Message]:
    """Give the messages of a file of JSON lines; empty lines are passed over."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield decode(line)
                except DecodeError as error:
                    reason = f"{path.name}, line {number}: {error.reason}"
                    raise DecodeError(reason, error.path, error.offset) from None
