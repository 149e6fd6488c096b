"""Answers that are cleaned while a model says them, and the same when they come as a whole.

A text is cut where nothing goes on (see `boundaries`), at places that depend on the text alone, and
each segment is cleaned once. So it does not matter how the model's pieces were cut, and what was
released is the beginning of what becomes of the whole. What is found in one segment is known in the
next ones, and not taken out of those before, which somebody may have read.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from toolbus.messages.text_walker import rewrite_call, updated
from toolbus.redaction.secrets.boundaries import candidates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.messages.reasoning import ReasoningPart
    from toolbus.messages.records import AssistantMessage
    from toolbus.messages.text_walker import TextVisitor
    from toolbus.redaction.secrets.boundaries import Boundaries
    from toolbus.redaction.secrets.secret_registry import SecretRegistry

T = TypeVar("T")

_SEGMENT, _CONTEXT, _TAIL = 32, 512, 512
"""Letters of a segment at least, those before it that it is read with, and those that are kept."""

_MOST = 1_024
"""Answers that are being said, of which it is known what was released."""


class Clean(Protocol):
    """Takes secrets out of records."""

    async def __call__(
        self, record: T, walk: Callable[[T, TextVisitor], T], stream: str | None, /
    ) -> T:
        """Return *record* without secrets; *walk* is over its texts, *stream* what it goes on."""
        ...


class Segment(NamedTuple):
    """What was said from letter *start* to *end* of a text, and what became of it."""

    start: int
    end: int
    cleaned: str
    is_same: bool


class AnswerContext:
    """Who says answers, one behind another: *name* is a stream's in *registry*.

    *clean* takes a text, a walk over it and the name of what it goes on, and returns it clean.
    """

    def __init__(
        self, name: str, registry: SecretRegistry, boundaries: Boundaries, clean: Clean
    ) -> None:
        self.name, self._registry, self._boundaries = name, registry, boundaries
        self.clean = clean

    @property
    def latest(self) -> str:
        """The end of what was said before."""
        return self._registry.tail(self.name)

    def follow(self, text: str) -> None:
        """Note that *text* was said."""
        self._registry.follow(self.name, text[-_TAIL:])

    def is_open(self, data: bytes, begin: int) -> bool:
        """Tell whether something that begins behind byte *begin* may go on behind *data*."""
        return self._boundaries.is_open(data, begin) or self._registry.is_open(data[begin:])


class GrowingText:
    """A text that *speaker* says, cleaned segment by segment."""

    def __init__(self, speaker: AnswerContext) -> None:
        self._speaker = speaker
        self.text, self.segments = "", list[Segment]()
        self.cleaned = ""
        """What became of the segments so far."""
        self._done = self._seen = 0
        self._step = _SEGMENT
        self.looks = 0

    def begins(self, text: str) -> bool:
        """Tell whether *text* begins with all that was cleaned."""
        return text.startswith(self.text[: self._done])

    async def grow(self, text: str, before: str) -> str:
        """Return what stays, whatever comes, of what becomes of *text*; *before* stands before."""
        if not text.startswith(self.text[: self._seen]):
            self._seen, self._step = self._done, _SEGMENT
        self.text = text
        while (end := self._next_end()) is not None:
            self._add(end, await self._cleaned(end, before))
        return self.cleaned

    async def end(self, text: str, before: str) -> str:
        """Return what becomes of *text*, to which nothing comes."""
        await self.grow(text, before)
        if self._done < len(text):
            self._add(len(text), await self._cleaned(len(text), before))
        return self.cleaned

    async def look(self, before: str) -> None:
        """Give what stands in the rest its numbers, and keep the rest."""
        if self._done < len(self.text):
            await self._cleaned(len(self.text), before)

    def _add(self, end: int, cleaned: str) -> None:
        is_same = cleaned == self.text[self._done : end]
        self.segments.append(Segment(self._done, end, cleaned, is_same))
        self.cleaned += cleaned
        self._done, self._seen, self._step = end, end, _SEGMENT

    def _next_end(self) -> int | None:
        """Return where the next segment ends; None if that is not known yet."""
        while True:
            start = max(self._seen, self._done + self._step)
            end = next(candidates(self.text, start), None)
            if end is None:
                # Whatever stands there is no candidate.
                self._seen = max(self._seen, len(self.text))
                return None
            self._seen = end
            context = self.text[max(0, self._done - _CONTEXT) : self._done].encode()
            data = context + self.text[self._done : end].encode()
            self.looks += 1
            if not self._speaker.is_open(data, len(context)):
                return end
            # What is held long is looked at seldom, so that all looks together take linear time.
            self._step += max(_SEGMENT // 4, self._step // 4)

    async def _cleaned(self, end: int, before: str) -> str:
        """Return the segment up to letter *end* without secrets."""
        segment, speaker = self.text[self._done : end], self._speaker
        if not self.segments:
            speaker.follow(before)
            return await speaker.clean(segment, _walk, speaker.name)
        walk = _WalkBehind(_end_of(self.cleaned))
        cleaned = await speaker.clean(segment, walk, None)
        # What stands before may be known for a secret by now, but it was released.
        return await speaker.clean(segment, _walk, None) if walk.is_changed else cleaned


def _walk(text: str, visitor: TextVisitor) -> str:
    (new,) = visitor.texts((text,))
    return text if new == text else new


class _WalkBehind:
    """Shows a text to visitors behind *context*, which is to stay as it is."""

    def __init__(self, context: str) -> None:
        self._context, self.is_changed = context, False

    def __call__(self, text: str, visitor: TextVisitor) -> str:
        (new,) = visitor.texts((self._context + text,))
        if new.startswith(self._context):
            return new[len(self._context) :]
        self.is_changed = True
        return text


def _end_of(text: str) -> str:
    """Return the last words of *text*."""
    end = text[-_CONTEXT:]
    return end if len(end) == len(text) else end[end.find(" ") + 1 :]


class GrowingAnswer:
    """The texts of one answer: first what a model thinks, then what it says."""

    def __init__(self, speaker: AnswerContext) -> None:
        self._speaker, self._before = speaker, speaker.latest
        self.reasoning, self.content = GrowingText(speaker), GrowingText(speaker)

    async def grow(self, kind: str, text: str) -> str:
        """Return what stays of *text*, as far as it was said; *kind* is that of the window."""
        if kind == "reasoning":
            return await self.reasoning.grow(text, self._before)
        if not self.content.text:
            # What was thought has the first numbers, though its end may not be released yet.
            await self.reasoning.look(self._before)
        return await self.content.grow(text, self.reasoning.text or self._before)

    async def end(self, message: AssistantMessage) -> AssistantMessage:
        """Return *message*, whose texts these are, with clean ones."""
        thought = "".join([part.text for part in message.reasoning])
        # Somebody may have put another answer in the place of the one that was said.
        if not self.reasoning.begins(thought):
            self.reasoning = GrowingText(self._speaker)
        if not self.content.begins(message.content):
            self.content = GrowingText(self._speaker)
        await self.reasoning.end(thought, self._before)
        content = await self.content.end(message.content, thought or self._before)
        self._speaker.follow(message.content or thought)
        return updated(
            message,
            content=message.content if content == message.content else content,
            reasoning=_parts(message.reasoning, self.reasoning.segments),
        )


class GrowingAnswers:
    """The answers that are being said, by whose they are; the latest are kept."""

    def __init__(self) -> None:
        self._answers: OrderedDict[object, GrowingAnswer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def of(self, key: object, speaker: AnswerContext) -> GrowingAnswer:
        """Return the answer of *key*, which *speaker* says; a new one if there is none."""
        if key not in self._answers:
            self._answers[key] = GrowingAnswer(speaker)
            while len(self._answers) > _MOST:
                self._answers.popitem(last=False)
        return self._answers[key]

    def pop(self, key: object, speaker: AnswerContext) -> GrowingAnswer:
        """Return the answer of *key*, and forget it."""
        answer = self.of(key, speaker)
        del self._answers[key]
        return answer


def rewrite_calls(message: AssistantMessage, visitor: TextVisitor) -> AssistantMessage:
    """Return *message* with its calls and metadata rewritten, and its texts as they are."""
    calls = tuple([rewrite_call(call, visitor) for call in message.tool_calls])
    is_same = all(new is call for new, call in zip(calls, message.tool_calls, strict=True))
    return updated(
        message,
        metadata=visitor.json(message.metadata),
        tool_calls=message.tool_calls if is_same else calls,
    )


def _parts(parts: tuple[ReasoningPart, ...], segments: list[Segment]) -> tuple[ReasoningPart, ...]:
    """Return *parts* with the *segments* of what they say together."""
    new = list(_split(segments, [len(part.text) for part in parts]))
    changed = [part.with_text(text) for part, text in zip(parts, new, strict=True)]
    return parts if all(a is b for a, b in zip(changed, parts, strict=True)) else tuple(changed)


def _split(segments: list[Segment], lengths: list[int]) -> Iterator[str]:
    """Give what became of each of the parts with *lengths*, which were one text."""
    start, index, offset = 0, 0, 0
    for length in lengths:
        end, texts = start + length, list[str]()
        while index < len(segments) and segments[index].start + offset < end:
            segment = segments[index]
            if segment.end <= end:
                texts.append(segment.cleaned[offset:])
            elif segment.is_same:
                texts.append(segment.cleaned[offset : end - segment.start])
                offset = end - segment.start
                break
            else:
                texts.append(segment.cleaned[offset:])
            index, offset = index + 1, 0
        start = end
        yield "".join(texts)
