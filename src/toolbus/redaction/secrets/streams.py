"""Redaction of streamed answers: released by line, and equal to the redacted whole at the end.

Text is released up to the last line end, except lines that an open block or the beginning of a
known value reaches into. A long text without a line end is released up to a blank where a cut
changes nothing: the matches before it are the same with and without the text behind it.

Each released segment is redacted once, together with the text before it. A secret found later is
removed from the stored copy, but not from earlier segments, which may have been read already.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from toolbus.messages.record_walker import rewrite_call
from toolbus.messages.text_walker import updated
from toolbus.redaction.placeholders import placeholders_in
from toolbus.redaction.secrets.collecting import Edit, edited
from toolbus.redaction.secrets.engine import places
from toolbus.redaction.secrets.open_blocks import open_block
from toolbus.redaction.secrets.secret_search import SecretSearch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.bus.dispatch.details import AnswerWindow
    from toolbus.messages.reasoning import ReasoningPart
    from toolbus.messages.records import AssistantMessage
    from toolbus.messages.text_walker import TextVisitor
    from toolbus.redaction.secrets.engine import Engine
    from toolbus.redaction.secrets.rules import Rule
    from toolbus.redaction.secrets.secret_registry import SecretRegistry

MOST_HELD, PATIENCE = 2_000, 2.0
"""Characters without a line end, or seconds, after which text is released up to a blank."""

_SEGMENT, _CONTEXT, _AHEAD, _TAIL = 64, 512, 96, 512
"""Characters of a segment at least, of the context around it that is scanned with it, and of the
end of an answer that is scanned with the next one."""

_MOST_ANSWERS, _TRIES = 1_024, 4

_BLANK = re.compile("[ \t。，、；！？：]")  # noqa: RUF001 - as they are written in Chinese
# The parts of a pattern that may match a line end, or the end of an unfinished text. The pattern is
# not parsed: a harmless `[^x]` holds answers back as well.
_MAY_PASS_LINE_ENDS = re.compile(r"\\[^dwbB\W_]|\[\^|\[:|[$^\x00-\x1f]|\(\?[A-Za-z]*s")


def may_pass_line_ends(rule: Rule) -> bool:
    """Return whether a user's *rule* may match over the end of a line; True if unsure."""
    return rule.foreign and _MAY_PASS_LINE_ENDS.search(rule.pattern) is not None


Walk: TypeAlias = "Callable[[str, TextVisitor], str]"
Clean: TypeAlias = "Callable[[str, Walk, str | None], Awaitable[str]]"
"""Redacts a text by a walk over it; the text continues the stream of that name."""


class Segment(NamedTuple):
    """The characters of a text from *start* to *end*, and *cleaned*, the redacted segment."""

    start: int
    end: int
    cleaned: str

    def cleaned_position(self, text: str, end: int) -> int:
        """Return the position in the cleaned segment of character *end* of *text*."""
        before, behind = text[self.start : end], text[end : self.end]
        if self.cleaned.startswith(before):
            return len(before)
        # Between two secrets the position is unknown: then it is the segment's end.
        is_known = self.cleaned.endswith(behind)
        return len(self.cleaned) - len(behind) if is_known else len(self.cleaned)


class StreamContext(NamedTuple):
    """The context of one session's answers: *name* is the name of their stream in *registry*.

    *engine* is the engine of *clean*. If answers are *held*, nothing is released before their end.
    """

    name: str
    registry: SecretRegistry
    engine: Engine
    clean: Clean
    held: bool
    clock: Callable[[], float]

    def follow(self, text: str) -> None:
        """Note that *text* was released."""
        self.registry.follow(self.name, text[-_TAIL:])

    def spans(self, data: bytes) -> set[tuple[int, int]]:
        """Return the spans of possible secrets in *data*."""
        both = (*places(self.engine.find, data, None), *self.registry.search.places(data))
        return {(place.start, place.end) for place in both if place is not None}


class RecurringValues:
    """Assumed values of one answer that look random, searched for in the rest of the answer."""

    def __init__(self, registry: SecretRegistry) -> None:
        self._registry, self.search = registry, SecretSearch()

    def note(self, text: str, cleaned: str) -> None:
        """Note the values in *text* that *cleaned* has placeholders for."""
        # The judge's many expressions are compiled at the first candidate.
        from toolbus.redaction.secrets.plausibility import Judge  # noqa: PLC0415

        for placeholder in placeholders_in(cleaned):
            value = self._registry.assumed_value(placeholder)
            if value is not None and value in text and Judge().recurs(value):
                self.search.add(value, placeholder)

    def cleaned(self, text: str) -> str:
        """Return *text* with placeholders in place of the values."""
        if not self.search.knows():
            return text
        data = text.encode()
        again = filter(None, self.search.places(data))
        edits = [Edit(place.start, place.end, place.hit.rule.name) for place in again]
        return edited(data, edits).decode()


class RedactedText:
    """One text of an answer in *context*, released segment by segment."""

    def __init__(self, context: StreamContext, recurring: RecurringValues) -> None:
        self._context, self._recurring = context, recurring
        self.text, self.segments = "", list[Segment]()
        self.cleaned = ""
        """The redacted segments so far."""
        self._done = self._line_end = self._next_try = self.tries = 0
        self._since = context.clock()

    def begins(self, text: str) -> bool:
        """Return whether *text* begins with all segments."""
        return text.startswith(self.text[: self._done])

    def goes_on(self, window: AnswerWindow) -> bool:
        """Return whether *window* continues this text, and not another one after a void answer."""
        end = self.text[-_SEGMENT:]
        is_same = window.text.startswith(end, len(self.text) - len(end))
        return is_same and window.released == self.cleaned

    async def grow(self, text: str, before: str) -> str:
        """Return the released part of the redacted *text*; *before* is the text before it."""
        if len(self.text) == self._done:
            self._since = self._context.clock()
        self._line_end = text.rfind("\n", max(self._done, len(self.text))) + 1 or self._line_end
        self.text = text
        end = self._release_end()
        if end > self._done:
            await self._release(end, before)
        return self.cleaned

    async def end(self, text: str, before: str) -> str:
        """Return the whole redacted *text*, which is complete."""
        self.text = text
        if self._done < len(text):
            await self._release(len(text), before)
        return self.cleaned

    async def look(self, before: str) -> None:
        """Register the secrets of the unreleased rest without releasing it."""
        if self._done < len(self.text):
            await self._cleaned(len(self.text), before)

    async def _release(self, end: int, before: str) -> None:
        segment = self.text[self._done : end]
        cleaned = self._recurring.cleaned(await self._cleaned(end, before))
        if cleaned != segment:
            self._recurring.note(segment, cleaned)
        self.segments.append(Segment(self._done, end, cleaned))
        self.cleaned += cleaned
        self._done, self._next_try, self._since = end, 0, self._context.clock()

    def _release_end(self) -> int:
        """Return the position up to which the text can be released now."""
        size = len(self.text) - self._done
        is_late = size >= MOST_HELD or self._context.clock() - self._since >= PATIENCE
        least = self._done if is_late else self._done + _SEGMENT - 1
        if self._context.held or size < self._next_try or not (is_late or self._line_end > least):
            return self._done
        self.tries += 1
        end = self._closed_line() if self._line_end > least else self._done
        if end == self._done and is_late:
            end = self._neutral_blank()
        # A long held text is tried less often, so that all tries together take linear time.
        self._next_try = size + max(_SEGMENT, size // 4)
        return end

    def _closed_line(self) -> int:
        """Return the last line end that no match spans, or the last cut."""
        end = self._line_end
        for _ in range(_TRIES):
            open_at = self._open_at(end)
            if open_at == end:
                return end
            # The block open at this line's end may begin in a line that belongs to the one before.
            end = self.text.rfind("\n", self._done, open_at) + 1
            if end <= self._done:
                break
        return self._done

    def _neutral_blank(self) -> int:
        """Return a blank behind which a cut changes nothing, or the last cut."""
        begin = max(0, self._done - _CONTEXT)
        limit = min(self._open_at(len(self.text)), len(self.text) - _AHEAD)
        blanks = [blank.end() for blank in _BLANK.finditer(self.text, self._done, max(limit, 0))]
        spans = self._context.spans(self.text[begin:].encode()) if blanks else set()
        for number in range(_TRIES if blanks else 0):
            end = blanks[-1 - number * len(blanks) // _TRIES]
            before = self.text[begin:end].encode()
            is_same = self._context.spans(before) == {
                span for span in spans if span[0] < len(before)
            }
            if is_same and self._open_at(end) == end:
                return end
        return self._done

    def _open_at(self, end: int) -> int:
        """Return the start of a match that may continue behind character *end*, or *end*."""
        begin = max(0, self._done - _CONTEXT)
        data, first = self.text[begin:end].encode(), len(self.text[begin : self._done].encode())
        searches = (self._context.registry.search, self._recurring.search)
        open_at = min(open_block(data, first), *[search.open_value(data) for search in searches])
        return begin + len(data[: max(first, open_at)].decode(errors="ignore"))

    def cleaned_position(self, end: int) -> int:
        """Return the position in the cleaned text of character *end*."""
        position = 0
        for segment in self.segments:
            if segment.end > end:
                return position + segment.cleaned_position(self.text, end)
            position += len(segment.cleaned)
        return position

    async def _cleaned(self, end: int, before: str) -> str:
        """Return the segment up to character *end* without secrets."""
        segment, context = self.text[self._done : end], self._context
        if not self.segments:
            context.follow(before)
            return await context.clean(segment, _walk, context.name)
        behind = _WalkBehind(self.text[self._context_begin() : self._done])
        cleaned = await context.clean(segment, behind, None)
        return await context.clean(segment, behind.apart, None) if behind.is_found else cleaned

    def _context_begin(self) -> int:
        """Return the start of the next segment's context: of a line, or at least of a word."""
        begin = max(0, self._done - _CONTEXT)
        line = self.text.find("\n", begin, begin + _CONTEXT // 2) + 1 if begin else 0
        return line or (self.text.find(" ", begin, self._done) + 1 if begin else 0) or begin


def _walk(text: str, visitor: TextVisitor) -> str:
    (new,) = visitor.texts((text,))
    return text if new == text else new


class _WalkBehind:
    """A walk that shows visitors a text behind *context*, which was released."""

    def __init__(self, context: str) -> None:
        self._context, self.is_found = context, False

    def __call__(self, text: str, visitor: TextVisitor) -> str:
        (both,) = visitor.texts((self._context + text,))
        self.is_found = both != self._context + text
        return text

    def apart(self, text: str, visitor: TextVisitor) -> str:
        """Show the text so that it can be told apart from the context."""
        (both,), (before,) = visitor.texts((self._context + text,)), visitor.texts((self._context,))
        _, beside = visitor.texts((self._context, text))
        # The rest of a secret that begins in the context is cut out.
        return both[len(before) :] if both.startswith(before) else beside


class RedactedAnswer:
    """The texts of one answer: the reasoning, then the content."""

    def __init__(self, context: StreamContext) -> None:
        self._context, self._before = context, context.registry.tail(context.name)
        self._recurring = RecurringValues(context.registry)
        self.reasoning, self.content = self._text(), self._text()

    async def grow(self, window: AnswerWindow) -> str:
        """Return the released part of the redacted text of *window*."""
        if window.kind == "reasoning":
            if not self.reasoning.goes_on(window):
                self.reasoning = self._text()
            return await self.reasoning.grow(window.text, self._before)
        if not self.content.goes_on(window):
            self.content = self._text()
        if not self.content.text:
            # Its secrets count in the content even if the end of the reasoning is not released yet.
            await self.reasoning.look(self._before)
        return await self.content.grow(window.text, self.reasoning.text or self._before)

    async def end(self, message: AssistantMessage) -> AssistantMessage:
        """Return *message*, whose texts these are, redacted."""
        thought = "".join([part.text for part in message.reasoning])
        # A handler may have replaced the answer that was streamed.
        if not self.reasoning.begins(thought):
            self.reasoning = self._text()
        if not self.content.begins(message.content):
            self.content = self._text()
        for end in accumulate([len(part.text) for part in message.reasoning[:-1]]):
            await self.reasoning.grow(thought[:end], self._before)
        await self.reasoning.end(thought, self._before)
        content = await self.content.end(message.content, thought or self._before)
        self._context.follow(message.content or thought)
        return updated(
            message,
            content=message.content if content == message.content else content,
            reasoning=_parts(message.reasoning, self.reasoning),
        )

    def _text(self) -> RedactedText:
        return RedactedText(self._context, self._recurring)


class RedactedAnswers:
    """The latest streaming answers, by their keys.

    *held* says that no answer is released before its end.
    """

    def __init__(self, *, held: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._answers: OrderedDict[object, RedactedAnswer] = OrderedDict()
        self.held, self.clock = held, clock

    def __len__(self) -> int:
        return len(self._answers)

    def of(self, key: object, context: StreamContext) -> RedactedAnswer:
        """Return the answer of *key* in *context*, a new one if there is none."""
        if key not in self._answers:
            self._answers[key] = RedactedAnswer(context)
            while len(self._answers) > _MOST_ANSWERS:
                self._answers.popitem(last=False)
        return self._answers[key]

    def pop(self, key: object, context: StreamContext) -> RedactedAnswer:
        """Remove and return the answer of *key*."""
        answer = self.of(key, context)
        del self._answers[key]
        return answer


def rewrite_calls(message: AssistantMessage, visitor: TextVisitor) -> AssistantMessage:
    """Return *message* with its calls and metadata rewritten, and its texts unchanged."""
    calls = tuple([rewrite_call(call, visitor) for call in message.tool_calls])
    is_same = all(new is call for new, call in zip(calls, message.tool_calls, strict=True))
    return updated(
        message,
        metadata=visitor.json(message.metadata),
        tool_calls=message.tool_calls if is_same else calls,
    )


def _parts(parts: tuple[ReasoningPart, ...], whole: RedactedText) -> tuple[ReasoningPart, ...]:
    """Return *parts*, which together are the text *whole*, each with its redacted text."""
    if whole.cleaned == whole.text:
        return parts
    ends = accumulate([len(part.text) for part in parts])
    cuts = [0, *map(whole.cleaned_position, ends)]
    texts = [whole.cleaned[start:end] for start, end in pairwise(cuts)]
    return tuple([part.with_text(text) for part, text in zip(parts, texts, strict=True)])
