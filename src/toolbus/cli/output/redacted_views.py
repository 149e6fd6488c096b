"""Views of sessions without credentials and personal data, for a file that goes to others."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from functools import partial
from itertools import chain
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from toolbus.errors import LoadError, ToolbusError
from toolbus.history.timeline import read_parts
from toolbus.history.view_walker import rewrite_view
from toolbus.messages.records import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from toolbus.messages.text_walker import TextMapper, updated
from toolbus.redaction.limits import ScanLimits, UnexaminedError
from toolbus.redaction.placeholders import SessionPlaceholders, kind_of
from toolbus.redaction.records import withheld
from toolbus.redaction.redact_personal_data import KINDS
from toolbus.redaction.secrets.engine import engine_for
from toolbus.redaction.secrets.redactor import Redactor
from toolbus.redaction.secrets.rules import choose
from toolbus.settings.extras import needs_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from toolbus.cli.output.stream import ProgressLine
    from toolbus.history.timeline import Timeline
    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.store_reader import SessionRow

V = TypeVar("V")
R = TypeVar("R")

_WHOLE = (str, dict, list, ToolCall, SystemMessage, UserMessage, AssistantMessage, ToolMessage)
"""The types of values that are withheld as a whole."""

_CHARS, _SECONDS = 8_000_000, 5.0
"""The most characters of one scan, and its most processor time for a million of them."""

_HOME = re.compile(
    r"(?<![\w.~-])(?:/mnt/[a-z]|/var|/export)?\\?/(?:home|Users)\\?/[^/\s\"'`<>|:;,()\[\]{}\\]+"
    r"|(?<=\\)wsl(?:\$|\.localhost)(?:\\{1,2}|/)[\w.-]+(?:\\{1,2}|/)home(?:\\{1,2}|/)[\w.-]+"
    r"|(?:(?<!\w)[A-Za-z]:|(?<=/)[A-Za-z]%3[Aa])(?:\\{1,2}|/)Users(?:\\{1,2}|/)"
    r"(?:[^\\/:*?\"<>|\r\n]{1,60}(?=[\\/])|[^\\/\s\"'`<>|:;,()\[\]{}]+)"
    r"|(?<=/)-(?:home|Users)-[^-/\s]+"
)
"""Home folders on Linux, macOS and Windows, and in the folder names of Claude Code's sessions."""


class ViewRedaction:
    """The redaction of all views in one file: a value has the same placeholder in each of them.

    The key of the placeholders is drawn for this file: they match no placeholder elsewhere.
    Raises `ImportError` without the extras `redact` and `personal`.
    """

    def __init__(self) -> None:
        try:
            # This module needs the extra `personal`.
            from toolbus.redaction.personal.detector import Detector  # noqa: PLC0415
        except ImportError as error:
            msg = needs_extra("finding personal data needs libraries", "personal")
            raise ImportError(msg, name=error.name) from error
        rules = choose((), (), {})
        self._redactor = Redactor(engine_for(rules), chars=_CHARS, seconds=_SECONDS)
        self._redactor.key = token_bytes(32)
        self._names = _CountedPlaceholders("")
        self._redactor.registries.of("").placeholders = self._names
        self._registry = self._redactor.registry("", None)
        self._detector = Detector(KINDS, None, ())
        self._homes, self._withheld = set[str](), 0

    def learn(self, view: object) -> None:
        """Find the values in *view*, so that they are hidden in all views, and count them."""
        asyncio.run(self._redacted(view))
        # A password that one text names may be in another text, which does not name it.
        self._registry.note_written("".join(self._names.made))

    def redacted(self, view: V) -> V:
        """Return *view*, of the kinds of `rewrite_view`, without the values to hide.

        Every text in it is examined, and withheld if that is impossible.
        """
        withheld_before = self._withheld
        redacted: V = asyncio.run(self._redacted(view))
        self._withheld = withheld_before
        return redacted

    @property
    def counts(self) -> dict[str, int]:
        """The number of different hidden values by kind, as learned, the most frequent first."""
        kinds = Counter([kind_of(name) for name in self._names.made])
        kinds += Counter({"home-folder": len(self._homes), "withheld": self._withheld})
        return dict(kinds.most_common())

    async def _redacted(self, view: Any) -> Any:
        return rewrite_view(await self._examined(view), _TextChange(self._without_homes))

    async def _examined(self, view: Any) -> Any:
        """Return *view* without credentials and personal data."""
        limits = ScanLimits(_CHARS, _SECONDS)
        try:
            view = await self._redactor.clean("", view, rewrite_view)
            clean = partial(self._detector.clean, view, rewrite_view, self._names.of, limits)
            return await self._names.salted(
                partial(clean, covers=lambda _: True, keep_binary=False)
            )
        except UnexaminedError as error:
            return await self._examined_parts(view, error)

    async def _examined_parts(self, view: Any, error: UnexaminedError) -> Any:
        """Return *view* with each of its parts examined alone, or withheld if it has none."""
        if isinstance(view, _WHOLE):
            self._withheld += 1
            return _stand_in(view, withheld(error, "credentials and personal data"))
        match view:
            case tuple():
                make = getattr(type(view), "_make", tuple)
                return make([await self._examined(item) for item in view])
            case Struct():
                fields = {name: getattr(view, name) for name in view.__struct_fields__}
                return updated(
                    view, **{name: await self._examined(fields[name]) for name in fields}
                )
        raise error

    def _without_homes(self, text: str) -> str:
        def home(match: re.Match[str]) -> str:
            self._homes.add(match[0])
            return "~"

        return _HOME.sub(home, text)


class PageViews:
    """The views of the sessions *rows* for a file, redacted unless *as_stored*.

    Raises `LoadError` without the extras, and `ToolbusError` if the redaction fails: then nothing
    may be written.
    """

    def __init__(self, reader: SqlReader, rows: Sequence[SessionRow], *, as_stored: bool) -> None:
        self._reader, self._rows = reader, tuple(rows)
        self._redaction = None if as_stored else _redaction()

    def learn(self, progress: ProgressLine) -> None:
        """Find all values to hide: one that is found last may be in the first text, too."""
        if self._redaction is not None:
            for part in chain.from_iterable(map(self._parts, self._rows)):
                _guarded(self._redaction.learn, part)
                progress.show(f"{part.end:,} messages examined")

    @property
    def sessions(self) -> tuple[SessionRow, ...]:
        """The rows as the file shows them."""
        return self._shown(self._rows)

    @property
    def hidden(self) -> dict[str, int] | None:
        """The number of hidden values by kind, None for views as stored."""
        return None if self._redaction is None else self._redaction.counts

    def parts(self, row: SessionRow) -> Iterator[Timeline]:
        """Yield the parts of the timeline of a session; of a single one with the kept values."""
        return map(self._shown, self._parts(row))

    def _parts(self, row: SessionRow) -> Iterator[Timeline]:
        return read_parts(self._reader, row, values=len(self._rows) == 1)

    def _shown(self, view: V) -> V:
        return view if self._redaction is None else _guarded(self._redaction.redacted, view)


def _redaction() -> ViewRedaction:
    try:
        return ViewRedaction()
    except ImportError as error:
        reason = f"a page is redacted, and {error}"
        raise LoadError(f"{reason}; or add --as-stored to write all texts as they are") from error


def _guarded(work: Callable[[V], R], view: V) -> R:
    """Return the result of *work*; the text of an error may have the values that it is to hide."""
    try:
        return work(view)
    except Exception as error:  # noqa: BLE001 - after any failure nothing may be written
        name = type(error).__name__
        raise ToolbusError(f"the redaction failed with {name}, so no page was written") from None


class _CountedPlaceholders(SessionPlaceholders):
    """Placeholders that remember which of them were *made*."""

    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.made: dict[str, None] = {}

    def of(self, kind: str, value: str) -> str:
        return self._counted(super().of(kind, value))

    def shared(self, kind: str) -> str:
        return self._counted(super().shared(kind))

    def _counted(self, placeholder: str) -> str:
        self.made[placeholder] = None
        return placeholder


class _TextChange(TextMapper):
    """Changes every text, addresses of resources as well."""

    def address(self, uri: str) -> str:
        return self.texts((uri,))[0]


def _stand_in(view: Any, reason: str) -> Any:
    """Return the replacement of *view*, a message, a call, a text or another JSON value."""
    match view:
        case ToolMessage():
            return ToolMessage(id="", tool_call_id="", tool_name="", content=reason)
        case SystemMessage() | UserMessage() | AssistantMessage():
            return type(view)(id="", content=reason)
        case ToolCall():
            return ToolCall(id="", name="", raw=reason)
    return reason
