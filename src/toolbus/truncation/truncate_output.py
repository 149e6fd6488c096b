"""Size: results that are too large are shortened, and the model reads on in the whole.

```python
from toolbus import Agent
from toolbus.truncation.truncate_output import TruncateOutput

agent = Agent(model, tools=[shell], components=[TruncateOutput(characters=20_000)])
```

```toml
[[component]]
use = "truncate-output"
settings = { lines = 400, words = ["error", "failed"] }
```

What stays of a text are its head, its tail and the lines that match, with a mark in each gap, and
below them a notice that says how much is missing and how to read on. The whole is kept aside; the
component brings the tool `read_more`, which reads a page of it or searches it. A result is within
the limits with its marks and notices, so one that was shortened is left alone.

**What is never cut.** A character that the reader sees as one (`toolbus.truncation.cuts` says
which rules hold). A text that is JSON as a whole: it loses the middle of arrays, objects and
strings, and stays JSON; its notice is its last member or item. A structured value: it loses items
and members and must still fit the tool's output schema, or is left out whole, and the text says
so. An image, a sound or a blob: it stays, or is left out whole with *part_bytes*.

**Beside redaction.** Adapters run at priority 50 of `MESSAGE_APPEND_BEFORE`, this at 40: what is
kept has passed them all, in whatever order components are installed, and what a guard denies after
that is given up again. What only redacts the stored copy (`MESSAGE_PERSIST_BEFORE`) does not reach
what is kept here: keep that in memory.

**What is kept** belongs to one session; a reference of another is unknown. Without *folder* it is
kept in memory and ends with the process; in a folder it outlives it, so a resumed session reads
on. The oldest outputs are given up for new ones, also those of other sessions. A sub-agent has no
`read_more`, so its results are shortened and the rest is gone; the notice says so.

**Limits.** Tokens are estimated unless there is a tokenizer: of nine in ten files of code and
prose the estimate is 0.84 to 1.25 times what `o200k_base` counts, of JSON of numbers down to half,
of base64 two thirds, of capitals up to one and a half (`benchmarks/bench_shortening.py`). JSON of
more than half a million values is not taken apart: its beginning is shown as a string. JSON is
counted in characters and tokens: it is written in one line. Nothing is shortened of what an MCP
server says otherwise than as a tool's result, nor of arguments and metadata. A rehearsal (`toolbus
replay --with`) leaves a structured value without text where it does not know the tool, and with
*folder* keeps outputs as a run does. A result of 50 MB takes about a second, in which nothing else
runs.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable  # noqa: TC003 - a file's settings
from functools import partial
from pathlib import Path  # noqa: TC003 - are of these types
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

from msgspec import Meta

from toolbus.components.components import APPEND_PRIORITY, AgentComponent
from toolbus.components.marks import Mark, on
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import MESSAGE_APPEND_AFTER, MESSAGE_APPEND_BEFORE
from toolbus.messages.records import ToolMessage, ToolResponse
from toolbus.toml.values import worded
from toolbus.tools import ToolContext, tool
from toolbus.truncation.budgets import Budget
from toolbus.truncation.cut_texts import Find, Plan
from toolbus.truncation.notices import WholeOutput
from toolbus.truncation.output_stores import (
    FolderOutputs,
    MemoryOutputs,
    OutputStore,
    OutputTooLargeError,
)
from toolbus.truncation.pages import PageRequest, read_page, search
from toolbus.truncation.searches import find_pattern, find_words
from toolbus.truncation.shortener import Shortener

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.components import Host
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import Message

logger = logging.getLogger("toolbus")

CHARACTERS = 20_000
"""The limit when none is given."""

PRIORITY = 40
"""Below that of adapters, which take secrets out before anything is kept."""

_PER_TOKEN = 16
"""Characters of a token at most, where only tokens are limited."""

_LEAST = {
    "characters": 200,
    "lines": 6,
    "tokens": 100,
    "outputs": 1,
    "megabytes": 1,
    "context": 0,
    "part_bytes": 0,
}
"""What a number must be at least."""

_MOST_LATEST = 1_000
_Latest: TypeAlias = dict[tuple[str, str], tuple[str, ...]]
"""References of outputs by session and an id in it."""

_READS = {"readOnlyHint": True}


class TruncateOutput(AgentComponent):
    """Shortens results of tools, and lets the model read on.

    Args:
        characters: the most that a result may have; 20,000, or 16 a token, if not given.
        lines: the same in lines.
        tokens: the same in tokens; all limits that are given hold.
        tokenizer: tells of how many tokens a text is; a function, or where one is found as
            `module:function`. Without one tokens are estimated.
        head: the part of a limit, between 0 and 1, that the head of a text has.
        matches: the part that lines with *words* or the *pattern* have; the tail has the rest.
        words: words whose lines are kept, in capitals or not.
        pattern: a regular expression of RE2 whose lines are kept; needs the extra `patterns`.
        context: how many lines before and after such a line are kept with it.
        part_bytes: images, sounds and blobs with more bytes are left out; None keeps them all.
        folder: where the whole outputs are kept, in files of their own; None keeps them in memory.
        outputs: how many of them are kept at most, of all sessions.
        megabytes: how large they are together at most.
        reader: the name of the tool that reads on.
    """

    def __init__(
        self,
        *,
        characters: int | None = None,
        lines: int | None = None,
        tokens: int | None = None,
        tokenizer: Any = None,
        head: float = 0.5,
        matches: float = 0.25,
        words: Iterable[str] = (),
        pattern: str | None = None,
        context: int = 1,
        part_bytes: int | None = None,
        folder: Path | None = None,
        outputs: int = 100,
        megabytes: int = 100,
        reader: str = "read_more",
        enabled: bool | None = None,
    ) -> None:
        super().__init__(enabled=enabled)
        _check_numbers(characters=characters, lines=lines, tokens=tokens, part_bytes=part_bytes)
        _check_numbers(outputs=outputs, megabytes=megabytes, context=context)
        if not (0 <= head <= 1 and 0 <= matches < 1 and head + matches <= 1):
            reason = f"head and matches are parts of 1 together, not {head!r} and {matches!r}"
            raise RegistrationError("TruncateOutput", reason)
        if characters is None:
            characters = CHARACTERS if tokens is None else tokens * _PER_TOKEN
        self._budget = Budget(characters, lines, tokens, _tokenizer(tokenizer))
        plan = Plan(head, matches, context, _find(tuple(words), pattern))
        self._shortener = Shortener(self._budget, plan, part_bytes)
        self._store: OutputStore = MemoryOutputs(outputs, megabytes * 1_000_000)
        if folder is not None:
            self._store = FolderOutputs(folder, outputs, megabytes * 1_000_000)
        self._pages: _Latest = {}
        self._fresh: _Latest = {}
        self._gives_up = False
        self._reader = reader
        if reader != "read_more":
            # A tool of the object stands before that of the class.
            self.read_more = tool(self.read_more.run, name=reader, annotations=_READS)

    def restrict(
        self,
        *,
        tools: Iterable[str] | str = ("*",),
        priority: int | None = None,
        late: bool = False,
    ) -> Self:
        """Narrow it to some tools; raises `RegistrationError` for a *priority* above adapters'."""
        if priority is not None and priority >= APPEND_PRIORITY:
            reason = (
                f"priority must be below {APPEND_PRIORITY}, not {priority!r}: what is kept aside"
            )
            raise RegistrationError("TruncateOutput", f"{reason} is to be redacted before")
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
        """Read on in an output that was shortened, or search it.

        Give the reference that the notice names. Begin at a line (the first is 1) or, in long
        lines, at a character offset; lines is how many to read at most. With find only lines that
        hold this text are returned, each with its number.
        """
        session, request = context.scope.session_id, PageRequest(line, offset, lines)
        text = self._store.get(session, reference)
        if text is None:
            # Which others there are it does not say: a reference is a right to read.
            reason = f"nothing is kept as {reference!r} in this session, or no longer"
            return ToolResponse.from_text(reason, is_error=True, error_type="unknown_reference")
        # What redaction does to a page may make it longer: it is not shortened for that.
        _remember(self._pages, (session, context.call_id), ())
        read = partial(search, words=find) if find else read_page
        return ToolResponse.from_text(read(text, request=request, budget=self._budget))

    @on(MESSAGE_APPEND_BEFORE, priority=PRIORITY, on_error="closed")
    def _on_message_append_before_shorten(self, ctx: EventContext[Message]) -> ToolMessage | None:
        """Shorten the response of a tool message that is too large."""
        message = ctx.value
        if not isinstance(message, ToolMessage) or message.tool_response is None:
            return None
        if ctx.tool is None and "/" in message.tool_name:
            return None  # A method of an MCP server's, and no tool.
        response, scope = message.tool_response, ctx.scope
        if (scope.session_id, message.tool_call_id) in self._pages:
            return None
        schema = None if ctx.tool is None or response.is_error else ctx.tool.output_schema
        shortened = self._shortener.shorten(
            response,
            lambda text: self._keep(scope, message.id, text),
            schema,
            # What an MCP server says beside a result is shown as a value without text.
            structured=ctx.tool is not None or bool(response.content),
        )
        return None if shortened is response else message.with_tool_response(shortened)

    def subscribe(self, host: Host) -> None:  # noqa: ARG002 - an override
        """Subscribe nothing yet: until an output is kept there is nothing to give up."""
        self._gives_up = False

    def _on_message_append_after_forget(self, ctx: EventContext[Message]) -> None:
        """Give up what a guard denied, or a later handler took out: it is to be nowhere."""
        session = ctx.scope.session_id
        for reference in self._fresh.pop((session, ctx.value.id), ()):
            if reference not in ctx.value.text:
                self._store.forget(session, reference)

    def _keep(self, scope: Scope, message_id: str, text: str) -> WholeOutput:
        """Keep *text* for the session of *scope*, and say where, or why that cannot be."""
        agent_id = "" if self.host is None else self.host.scope.agent_id
        if agent_id and scope.agent_id != agent_id:
            return WholeOutput(self._reader, reason="a sub-agent has no tool for that")
        try:
            reference, fresh = self._store.keep(scope.session_id, text)
        except OutputTooLargeError as error:
            return WholeOutput(self._reader, reason=str(error))
        except OSError as error:
            logger.warning("an output cannot be kept: %s", error)
            return WholeOutput(self._reader, reason="it could not be written")
        if fresh:
            if not self._gives_up:
                self._gives_up = True
                self.add_handler(
                    Mark(MESSAGE_APPEND_AFTER, "on", {}), self._on_message_append_after_forget
                )
            key = scope.session_id, message_id
            _remember(self._fresh, key, (*self._fresh.get(key, ()), reference))
        return WholeOutput(self._reader, reference)


def _remember(latest: _Latest, key: tuple[str, str], references: tuple[str, ...]) -> None:
    """Put *references* under *key* of a session and an id, of which only the latest are kept."""
    latest[key] = references
    while len(latest) > _MOST_LATEST:
        del latest[next(iter(latest))]


def _check_numbers(**numbers: int | None) -> None:
    for name, value in numbers.items():
        least = _LEAST[name]
        if value is not None and (type(value) is not int or value < least):
            reason = f"{name} must be {least} or more, not {value!r}"
            raise RegistrationError("TruncateOutput", reason)


def _find(words: tuple[str, ...], pattern: str | None) -> Find | None:
    if pattern is not None and words:
        raise RegistrationError("TruncateOutput", "words and pattern exclude each other")
    if not all(isinstance(word, str) and word for word in words):
        raise RegistrationError("TruncateOutput", f"words must be texts, not {words!r}")
    if pattern is not None:
        return find_pattern(pattern)
    return find_words(words) if words else None


def _tokenizer(tokenizer: Any) -> Callable[[str], int] | None:
    """Return the function *tokenizer*, or the one that it names."""
    if tokenizer is None:
        return None
    try:
        if isinstance(tokenizer, str):
            module, _, name = tokenizer.rpartition(":")
            tokenizer = getattr(importlib.import_module(module), name)
        size = tokenizer("a text")
    except Exception as error:
        reason = f"tokenizer {tokenizer!r} cannot be used: {worded(error)}"
        raise RegistrationError("TruncateOutput", reason) from error
    if type(size) is not int:
        raise RegistrationError("TruncateOutput", f"tokenizer gave {size!r} and no number")
    count: Callable[[str], int] = tokenizer
    return count
