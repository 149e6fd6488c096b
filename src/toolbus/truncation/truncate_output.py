"""The component that shortens oversized results, and lets the model read the rest.

A text keeps its head, its tail and the lines with some words; JSON stays JSON. The whole output is
kept for the tool `read_more`. The manual is `toolbus guide truncation`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable  # noqa: TC003 - a file's settings
from pathlib import Path  # noqa: TC003 - are of these types
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from msgspec import Meta

from toolbus.components.components import APPEND_PRIORITY, AgentComponent
from toolbus.components.marks import Mark, on
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import MESSAGE_APPEND_AFTER, MESSAGE_APPEND_BEFORE
from toolbus.messages.records import ToolMessage, ToolResponse
from toolbus.tools import ToolContext, tool
from toolbus.truncation.budgets import TextBudget
from toolbus.truncation.output_stores import FolderOutputs, MemoryOutputs
from toolbus.truncation.pages import WholeOutput, beyond, read_page, search, start_of
from toolbus.truncation.shortener import Shortener

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.components import Host
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import Message

logger = logging.getLogger("toolbus")

_CHARACTERS, _PER_TOKEN = 20_000, 16
"""The default limit, and the characters for a token if only tokens are given."""

_PRIORITY = 40
"""Lower than the priority of adapters, which redact secrets before any text is kept."""

_LEAST = {"characters": 200, "tokens": 100, "part_bytes": 0, "megabytes": 1}
"""The minimum of each number."""

_MOST_NEW = 1_000
_READS = {"readOnlyHint": True}


class TruncateOutput(AgentComponent):
    """Shortens results of tools, and lets the model read the rest.

    Args:
        characters: the limit for a result; by default 20,000, or 16 per token of *tokens*.
        tokens: the limit in tokens, which are estimated; both limits apply if both are given.
        head: the part of a limit, between 0 and 1, for the head of a text; the tail has the rest.
        words: words, in any case, whose lines are kept with one line at each side; such lines have
            a quarter of a limit.
        part_bytes: images, sounds and blobs with more bytes are left out; None keeps them all.
        folder: the folder of the whole outputs, one file each; None keeps them in memory.
        megabytes: the limit for all kept outputs together; the oldest are removed.
        reader: the name of the tool that reads on.
    """

    removed_settings: ClassVar = {
        "lines": "'lines' was removed; give `characters` or `tokens`",
        "tokenizer": "'tokenizer' was removed; tokens are estimated, and `characters` is exact",
        "matches": "'matches' was removed; lines with `words` have a quarter of the limit",
        "pattern": "'pattern' was removed; give `words`",
        "context": "'context' was removed; one line at each side is kept",
        "outputs": "'outputs' was removed; give `megabytes`",
    }

    def __init__(
        self,
        *,
        characters: int | None = None,
        tokens: int | None = None,
        head: float = 0.5,
        words: Iterable[str] = (),
        part_bytes: int | None = None,
        folder: Path | None = None,
        megabytes: int = 100,
        reader: str = "read_more",
        enabled: bool | None = None,
    ) -> None:
        super().__init__(enabled=enabled)
        _check_numbers(characters=characters, tokens=tokens)
        _check_numbers(part_bytes=part_bytes, megabytes=megabytes)
        if not 0 <= head <= 1:
            raise RegistrationError("TruncateOutput", f"head must be between 0 and 1, not {head!r}")
        words = tuple(words)
        if not all(isinstance(word, str) and word for word in words):
            raise RegistrationError("TruncateOutput", f"words must be texts, not {words!r}")
        if characters is None:
            characters = _CHARACTERS if tokens is None else tokens * _PER_TOKEN
        self._budget = TextBudget(characters, tokens)
        self._shortener = Shortener(self._budget, head, words, part_bytes)
        self._store: MemoryOutputs | FolderOutputs = MemoryOutputs(megabytes * 1_000_000)
        if folder is not None:
            self._store = FolderOutputs(folder, megabytes * 1_000_000)
        # By session and message: the references that were created with the message.
        self._new: dict[tuple[str, str], tuple[str, ...]] = {}
        self._watches = False
        self._reader = reader
        # An object's tool takes precedence over its class's.
        self.read_more = tool(self.read_more.run, name=reader, annotations=_READS)

    def restrict(
        self,
        *,
        tools: Iterable[str] | str = ("*",),
        priority: int | None = None,
        late: bool = False,
    ) -> Self:
        """Limit it to some tools; raises `RegistrationError` for a *priority* above adapters'."""
        if priority is not None and priority >= APPEND_PRIORITY:
            reason = f"priority must be below {APPEND_PRIORITY}, not {priority!r}"
            raise RegistrationError("TruncateOutput", f"{reason}: redaction comes first")
        return super().restrict(tools=tools, priority=priority, late=late)

    @tool(annotations=_READS)
    def read_more(
        self,
        context: ToolContext,
        reference: str,
        *,
        line: Annotated[int, Meta(ge=1)] = 1,
        lines: Annotated[int, Meta(ge=1)] | None = None,
        offset: Annotated[int, Meta(ge=0)] | None = None,
        find: Annotated[str, Meta(max_length=1_000)] = "",
    ) -> ToolResponse:
        """Read on in a shortened output, or search it.

        Give the reference from the notice. Start at a line (the first is 1) or, in long lines, at
        a character offset; lines is the maximum of lines to read. With find, only lines that
        contain this text are returned, each with its number.
        """
        text = self._store.get(context.scope.session_id, reference)
        if text is None:
            # Other references are not named: a reference is a right to read.
            reason = f"no output is kept as {reference[:100]!r} in this session"
            return ToolResponse.from_text(reason, is_error=True, error_type="unknown_reference")
        start = start_of(text, line, offset)
        if start is None:
            return ToolResponse.from_text(beyond(text, line, offset))
        if find:
            return ToolResponse.from_text(search(text, find, start, lines, self._budget))
        return ToolResponse.from_text(read_page(text, start, lines, self._budget))

    @on(MESSAGE_APPEND_BEFORE, priority=_PRIORITY, on_error="closed")
    def shorten(self, ctx: EventContext[Message]) -> ToolMessage | None:
        """Shorten the response of a tool message that is too large."""
        message = ctx.value
        if not isinstance(message, ToolMessage) or message.tool_response is None:
            return None
        response, scope = message.tool_response, ctx.scope
        if ctx.tool is None and ("/" in message.tool_name or not response.content):
            return None  # A method or a message of an MCP server, not a tool's result.
        if ctx.tool == self.read_more.spec:
            return None  # Redaction may lengthen a page, which is not cut again.
        schema = None if ctx.tool is None or response.is_error else ctx.tool.output_schema
        shortened = self._shortener.shorten(
            response, lambda text: self._keep(scope, message.id, text), schema
        )
        return None if shortened is response else message.with_tool_response(shortened)

    def subscribe(self, host: Host) -> None:  # noqa: ARG002 - an override
        """Subscribe no handler yet: the first kept output subscribes `forget`."""
        self._watches = False

    def forget(self, ctx: EventContext[Message]) -> None:
        """Forget an output that a guard denied, or a later handler removed from the message."""
        session = ctx.scope.session_id
        for reference in self._new.pop((session, ctx.value.id), ()):
            if reference not in ctx.value.text:
                self._store.forget(session, reference)

    def _keep(self, scope: Scope, message_id: str, text: str) -> WholeOutput:
        """Keep *text* for the session of *scope*; return its place, or the reason for none."""
        agent_id = "" if self.host is None else self.host.scope.agent_id
        if agent_id and scope.agent_id != agent_id:
            return WholeOutput(self._reader, reason="a sub-agent has no tool to read it")
        try:
            reference = self._store.keep(scope.session_id, text)
        except OSError as error:
            logger.warning("an output cannot be kept: %s", error)
            return WholeOutput(self._reader, reason="it could not be written")
        if reference is None:
            return WholeOutput(self._reader, reason="it exceeds the limit of all kept outputs")
        self._watch((scope.session_id, message_id), reference)
        return WholeOutput(self._reader, reference)

    def _watch(self, message: tuple[str, str], reference: str) -> None:
        """Remember that *reference* came with *message*, which may still be denied."""
        if not self._watches:
            self._watches = True
            mark = Mark(MESSAGE_APPEND_AFTER, "on", {})
            self.add_handler(mark, self.forget)
        self._new[message] = (*self._new.get(message, ()), reference)
        while len(self._new) > _MOST_NEW:
            del self._new[next(iter(self._new))]


def _check_numbers(**numbers: int | None) -> None:
    for name, value in numbers.items():
        least = _LEAST[name]
        if value is not None and (type(value) is not int or value < least):
            reason = f"{name} must be {least} or more, not {value!r}"
            raise RegistrationError("TruncateOutput", reason)
