"""All errors that toolbus raises.

ToolbusError
├── FreezeError           a value cannot be part of a record
├── DecodeError           bytes are not a valid record
├── RegistrationError     a handler, tool, component or option is invalid
├── DispatchError         an event is used in a way that it does not allow
│   ├── NoLoopError       async observers, and no event loop to run them
│   └── DispatchDepthError a handler dispatches its own event without end
├── HandlerError          a handler failed, and its policy is "raise"
│   └── HandlerContractError a handler returned a value that its event does not accept
├── DeadlineError         a handler or a tool exceeded its timeout
├── LoopRunningError      a sync method was called inside a running event loop
├── ToolNotRunError       a tool was executed without a runner
├── RunStatusError        a run ended with a status other than "ok"
├── MessageDenied         a message was denied on its way into the transcript
├── AppendError           a message cannot enter the transcript now
│   └── SessionBusyError  another writer has the session
├── ModelError            a model cannot answer
│   ├── ContextOverflowError  the request exceeds the model's context
│   └── OutputError       a model's answers do not fit the output type
├── ToolServerError       a tool server is unreachable, or its connection was lost
├── StoreError            the store cannot read or write
│   └── WrongPathError    a path has no store, or is taken by another file
├── LoadError             a file, or an object in it, cannot be loaded
│   └── ConfigurationError a configuration is invalid
├── LawBroken             a check of `toolbus.testing` found a case that breaks a law
└── ClosedError           a bus or an agent is used after it was closed

A failed tool call raises none of these: it is data, a `ToolResponse` with `is_error`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ToolbusError(Exception):
    """The base class of all errors of toolbus."""


class FreezeError(ToolbusError, ValueError):
    """A value cannot be part of a record, because it would not survive a round trip."""

    def __init__(self, reason: str, path: str = "$") -> None:
        self.reason, self.path = reason, path
        super().__init__(reason, path)

    def __str__(self) -> str:
        return f"{self.reason} - at `{self.path}`"


class DecodeError(ToolbusError, ValueError):
    """Bytes are not a valid record: *reason* is the expectation, *path* or *offset* the place."""

    def __init__(self, reason: str, path: str | None = None, offset: int | None = None) -> None:
        self.reason, self.path, self.offset = reason, path, offset
        super().__init__(reason, path, offset)

    def __str__(self) -> str:
        if self.path is not None:
            return f"{self.reason} - at `{self.path}`"
        return self.reason if self.offset is None else f"{self.reason} - at byte {self.offset}"


class RegistrationError(ToolbusError, TypeError):
    """A handler, a tool, a component or an option cannot work."""

    def __init__(self, what: str, reason: str) -> None:
        self.what, self.reason = what, reason
        super().__init__(what, reason)

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


class DispatchError(ToolbusError, TypeError):
    """An event is used in a way that it does not allow."""

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
    """A handler returned a value that its event does not accept."""


class DeadlineError(ToolbusError, TimeoutError):
    """A handler or a tool exceeded its timeout."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(seconds)

    def __str__(self) -> str:
        return f"timed out after {self.seconds:g} s"


class LoopRunningError(ToolbusError, RuntimeError):
    """A sync method was called inside a running event loop; *instead* is its async twin."""

    def __init__(self, instead: str) -> None:
        self.instead = instead
        super().__init__(instead)

    def __str__(self) -> str:
        return f"an event loop is already running; use `await {self.instead}`"


class ToolNotRunError(ToolbusError):
    """A tool was executed directly, without a runner and its guards."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)

    def __str__(self) -> str:
        way_out = "use `await ToolRunner(bus, toolset, scope).call(name, arguments)`"
        return f"tool {self.name!r} cannot run without a runner and its guards; {way_out}"


class RunStatusError(ToolbusError):
    """A run ended with a *status* other than "ok"; see `RunResult.raise_for_status`."""

    def __init__(self, status: str, reason: str | None) -> None:
        self.status, self.reason = status, reason
        super().__init__(status, reason)

    def __str__(self) -> str:
        return f"the run ended as {self.status!r}: {self.reason or 'no reason was given'}"


class MessageDenied(ToolbusError):
    """A message was denied on its way into the transcript."""

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
    """Another writer has the session; no part of the append was stored.

    *epoch* and *length* are the session's in the store, None if they were not read.
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
    """The model *model* cannot answer; *attempts* counts its requests."""

    def __init__(self, model: str, reason: str, attempts: int = 1) -> None:
        self.model, self.reason, self.attempts = model, reason, attempts
        super().__init__(model, reason, attempts)

    def __str__(self) -> str:
        return f"model {self.model!r}: {self.reason}"


class ContextOverflowError(ModelError):
    """The request exceeds the model's context; remove messages and tools, or shorten them."""


class OutputError(ModelError):
    """The model refused to answer, or its answers do not fit; *attempts* counts the answers."""


class ToolServerError(ToolbusError):
    """The tool server *where* cannot be used; *kind* is the `error_type` of its calls."""

    def __init__(self, where: str, reason: str, kind: str = "connection_failed") -> None:
        self.where, self.reason, self.kind = where, reason, kind
        super().__init__(where, reason, kind)

    @classmethod
    def lost(cls, where: str, reason: str) -> ToolServerError:
        """Return the error of a call that was running when the connection ended."""
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
    """The path *where* does not fit the operation; the store is not damaged."""


class LoadError(ToolbusError):
    """A file, or an object in it, cannot be loaded; the text is one line."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason


class ConfigurationError(LoadError):
    """The configuration *file* is invalid at *line* and *column*, both from 1."""

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
    """A handler breaks *law*; *case* is the smallest counterexample, *report* the full text.

    *subject* is the handler's name, *problem* one line on its result.
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
    """An object is used after it was closed."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(what)

    def __str__(self) -> str:
        return f"{self.what} is closed; make a new one"
