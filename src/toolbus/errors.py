"""Every error that toolbus raises; the tree below is the whole of it.

ToolbusError
├── FreezeError           a value cannot be part of a record
├── DecodeError           bytes are no record
├── RegistrationError     something is wrong with what was registered
├── DispatchError         an event is used in a way that it does not allow
│   ├── NoLoopError       async observers, and no event loop to run them
│   └── DispatchDepthError a handler dispatches its own event without end
├── HandlerError          a handler failed, and its policy is "raise"
│   └── HandlerContractError a handler gave back what it must not
├── DeadlineError         a handler or a tool took longer than it may
├── ToolNotRunError       a tool was executed without a runner
├── RunStatusError        a run ended otherwise than "ok"
├── MessageDenied         a message was refused on its way into the transcript
├── AppendError           a message cannot enter the transcript now
│   └── SessionBusyError  somebody else writes the session
├── ModelError            a model has no answer
│   ├── ContextOverflowError  what was sent is more than the model can read
│   └── OutputError       a model's answers do not fit the output type
├── ToolServerError       a server of tools cannot be reached, or was lost
├── StoreError            the store cannot read or write
│   └── WrongPathError    a path is that of no store, or a new file's and taken
├── LoadError             a file, or what it names, cannot be loaded
│   └── ConfigurationError a configuration cannot be used as it stands
├── LawBroken             a check of `toolbus.testing` found a case that breaks a law
└── ClosedError           a bus or an agent is used after its end

A tool's failure is none of these: it is data, a `ToolResponse` with `is_error`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ToolbusError(Exception):
    """The root of all errors of toolbus."""


class FreezeError(ToolbusError, ValueError):
    """A value cannot be part of a record, because it would not survive a round trip."""

    def __init__(self, reason: str, path: str = "$") -> None:
        self.reason, self.path = reason, path
        super().__init__(reason, path)

    def __str__(self) -> str:
        return f"{self.reason} - at `{self.path}`"


class DecodeError(ToolbusError, ValueError):
    """Bytes are no record: *reason* says what was expected, *path* or *offset* where."""

    def __init__(self, reason: str, path: str | None = None, offset: int | None = None) -> None:
        self.reason, self.path, self.offset = reason, path, offset
        super().__init__(reason, path, offset)

    def __str__(self) -> str:
        if self.path is not None:
            return f"{self.reason} - at `{self.path}`"
        return self.reason if self.offset is None else f"{self.reason} - at byte {self.offset}"


class RegistrationError(ToolbusError, TypeError):
    """What was registered (a handler, a tool, a component) cannot work."""

    def __init__(self, what: str, reason: str) -> None:
        self.what, self.reason = what, reason
        super().__init__(what, reason)

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


class DispatchError(ToolbusError, TypeError):
    """An event is dispatched in a way that it does not allow."""

    def __init__(self, event: str, reason: str) -> None:
        self.event, self.reason = event, reason
        super().__init__(event, reason)

    def __str__(self) -> str:
        return f"event {self.event!r}: {self.reason}"


class NoLoopError(DispatchError):
    """An event has async observers, and there is no event loop to run them."""

    def __init__(self, event: str) -> None:
        way_out = "dispatch it inside one, or open the bus there with `async with bus`"
        super().__init__(event, f"it has async observers and no event loop runs; {way_out}")
        self.args = (event,)


class DispatchDepthError(DispatchError):
    """A handler dispatches its own event again and again."""

    def __init__(self, event: str, depth: int) -> None:
        self.depth = depth
        way_out = "break the circle in its handlers"
        super().__init__(event, f"dispatched from inside itself {depth} times; {way_out}")
        self.args = (event, depth)


class HandlerError(ToolbusError):
    """A handler failed, and its policy is "raise"; the failure is `__cause__`."""

    def __init__(self, event: str, handler: str, reason: str = "raised an error") -> None:
        self.event, self.handler, self.reason = event, handler, reason
        super().__init__(event, handler, reason)

    def __str__(self) -> str:
        return f"handler {self.handler!r} of {self.event!r} {self.reason}"


class HandlerContractError(HandlerError):
    """A handler gave back something that its event does not take."""


class DeadlineError(ToolbusError, TimeoutError):
    """The time of a handler or a tool is up."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(seconds)

    def __str__(self) -> str:
        return f"timed out after {self.seconds:g} s"


class ToolNotRunError(ToolbusError):
    """A tool was executed directly, so no handler could see the call."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)

    def __str__(self) -> str:
        way_out = "use `await ToolRunner(bus, toolset, scope).call(name, arguments)`"
        what = f"tool {self.name!r} is not executed directly"
        return f"{what}: no guard would see the call; {way_out}"


class RunStatusError(ToolbusError):
    """A run ended as *status*, which is not "ok"; see `RunResult.raise_for_status`."""

    def __init__(self, status: str, reason: str | None) -> None:
        self.status, self.reason = status, reason
        super().__init__(status, reason)

    def __str__(self) -> str:
        return f"the run ended as {self.status!r}: {self.reason or 'no reason was given'}"


class MessageDenied(ToolbusError):
    """A message was refused on its way into the transcript."""

    def __init__(self, role: str, message_id: str, reason: str) -> None:
        self.role, self.message_id, self.reason = role, message_id, reason
        super().__init__(role, message_id, reason)

    def __str__(self) -> str:
        return f"{self.role} message {self.message_id!r} was denied: {self.reason}"


class AppendError(ToolbusError):
    """A message cannot enter a session now; `agent.enqueue` keeps it until it can."""

    def __init__(self, session_id: str, reason: str) -> None:
        self.session_id, self.reason = session_id, reason
        super().__init__(session_id, reason)

    def __str__(self) -> str:
        return f"append to session {self.session_id!r}: {self.reason}"


class SessionBusyError(AppendError):
    """Somebody else writes the session; nothing of what was to be appended is in it.

    *epoch* and *length* are where it stands in the store, None if that was not looked at.
    """

    def __init__(
        self, session_id: str, reason: str, epoch: int | None = None, length: int | None = None
    ) -> None:
        super().__init__(session_id, reason)
        self.epoch, self.length = epoch, length
        self.args = (session_id, reason, epoch, length)

    def __str__(self) -> str:
        return f"session {self.session_id!r}: {self.reason}"


class ModelError(ToolbusError):
    """The model *model* cannot answer; *attempts* counts how often it was asked."""

    def __init__(self, model: str, reason: str, attempts: int = 1) -> None:
        self.model, self.reason, self.attempts = model, reason, attempts
        super().__init__(model, reason, attempts)

    def __str__(self) -> str:
        return f"model {self.model!r}: {self.reason}"


class ContextOverflowError(ModelError):
    """The messages and tools are more than the model can read; take some away, or shorten them."""


class OutputError(ModelError):
    """The model refused to answer, or its answers do not fit; *attempts* counts those."""


class ToolServerError(ToolbusError):
    """The server *where*, which has tools, cannot be used; *kind* is the `error_type` of calls."""

    def __init__(self, where: str, reason: str, kind: str = "connection_failed") -> None:
        self.where, self.reason, self.kind = where, reason, kind
        super().__init__(where, reason, kind)

    @classmethod
    def lost(cls, where: str, reason: str) -> ToolServerError:
        """Return the error of a call that was under way when the connection ended."""
        fate = "the call may have had effects, and was not run again"
        return cls(where, f"the connection was lost ({reason}); {fate}", "connection_lost")

    def __str__(self) -> str:
        return f"mcp server {self.where!r}: {self.reason}"


class StoreError(ToolbusError):
    """The store cannot read or write *where*; nothing was changed."""

    def __init__(self, where: str, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(where, reason)

    def __str__(self) -> str:
        return f"store {self.where!r}: {self.reason}"


class WrongPathError(StoreError):
    """The path *where* cannot be used for what was asked; there is no damage."""


class LoadError(ToolbusError):
    """A file that was asked for, or what it names, cannot be loaded; the text is one line."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason


class ConfigurationError(LoadError):
    """What stands in *line* and *column*, from 1, of the configuration *file* cannot be used."""

    def __init__(
        self, reason: str, file: str, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(reason)
        self.file, self.line, self.column = file, line, column
        self.args = (reason, file, line, column)

    def __str__(self) -> str:
        place = [str(part) for part in (self.file, self.line, self.column) if part is not None]
        return f"{':'.join(place)}: {self.reason}"


class LawBroken(ToolbusError, AssertionError):
    """A handler breaks *law*; *case* is the smallest found that shows it, *report* tells all.

    *subject* names the handler, *problem* says in one line what it did.
    """

    def __init__(
        self, law: str, subject: str, problem: str, case: Mapping[str, object], report: str
    ) -> None:
        self.law, self.subject, self.problem = law, subject, problem
        self.case, self.report = case, report
        super().__init__(law, subject, problem, case, report)

    def __str__(self) -> str:
        return self.report


class ClosedError(ToolbusError):
    """Something is used after it was closed."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(what)

    def __str__(self) -> str:
        return f"{self.what} is closed; make a new one"
