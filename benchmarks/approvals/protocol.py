"""What a scenario asks of a system that lets a person approve tool calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from pathlib import Path

FINAL = "all is done"
"""What the model says when its script is at its end."""


class Call(NamedTuple):
    """A call that the scripted model makes: `write`, `drop`, `look` or `delegate` with a text."""

    id: str
    tool: str
    text: str


@dataclass(frozen=True)
class Setup:
    """What an agent is made of, in every process anew.

    *turns* are the calls of the model's turns, after which it says `FINAL`; `write` asks a person,
    `look` never does, `delegate` runs a sub-agent that calls `write` with its text. A hook that
    rewrites sets the text of each `write` to *rewrite*; a guard denies the tool *denied*; both are
    registered where they come before the approval, or after it if not *hook_first*.
    """

    place: Path
    turns: tuple[tuple[Call, ...], ...]
    session: str = "s"
    rewrite: str = ""
    denied: str = ""
    hook_first: bool = True
    kill: str = ""
    meet: int = 0
    lasts_s: float | None = None
    clock_s: float = 0.0


class Answer(NamedTuple):
    """What a person says: yes, or no with a *reason*; or another call in place of the one asked."""

    yes: bool
    reason: str = ""
    tool: str = ""
    text: str = ""


class Question(NamedTuple):
    """What a person is asked: the *handle* that the answer names, and what is shown."""

    handle: str
    call_id: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a step ended: "ended", "pending" with *questions*, "refused", "failed" or "killed"."""

    status: str
    said: str = ""
    questions: tuple[Question, ...] = field(default=())


class ApprovalsPeer(Protocol):
    """A system; each method runs in a process of its own and knows only what is stored.

    A method raises `CannotError`, with the reason, where the system has nothing of the kind.
    """

    def start(self, setup: Setup) -> Outcome:
        """Run the agent until it ends or waits for a person."""
        ...

    def questions(self, setup: Setup) -> tuple[Question, ...]:
        """Return what waits for a person in the session."""
        ...

    def resume(self, setup: Setup, answers: dict[str, Answer]) -> Outcome:
        """Give *answers* by their questions' handles and go on; with none, go on after a crash.

        One that takes no answer before all are there says so with `CannotError`.
        """
        ...

    def known(self, setup: Setup, call_id: str) -> str:
        """Return all that the store says of a call: "may have run", or its words for it."""
        ...

    def shown(self, setup: Setup, text: str) -> str:
        """Return what the system's own display writes for a question with this *text*."""
        ...

    def forge(self, setup: Setup) -> str:
        """Try to answer as the model can, by its tools; return "" or the way that worked."""
        ...
