"""The detector of personal data, and the visitor that rewrites the texts of a record."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.messages.blobs import text_in
from toolbus.messages.parts import Part, ResourcePart, TextPart
from toolbus.messages.text_walker import TextVisitor, is_text_type, rewrite_json
from toolbus.redaction.encoded import SHORTEST, encoded_texts
from toolbus.redaction.limits import turn
from toolbus.redaction.personal.accounts import find_cards, find_ibans
from toolbus.redaction.personal.emails import EMAIL, find_emails
from toolbus.redaction.personal.facts import facts
from toolbus.redaction.personal.identities import Identities, identity_countries
from toolbus.redaction.personal.lines import TextTopics, Vocabulary, lines_with
from toolbus.redaction.personal.matches import Appraisal, located, merged, readings
from toolbus.redaction.personal.phones import Phones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from toolbus.redaction.limits import ScanLimits
    from toolbus.redaction.personal.lines import Line
    from toolbus.redaction.personal.matches import PersonalDataMatch

    Find: TypeAlias = Callable[[Line, Appraisal], Iterator[PersonalDataMatch]]
    Change: TypeAlias = Callable[[str, str], str]
    """Returns the replacement of a text; the second argument is the key of the text."""

T = TypeVar("T")

_SMALLEST_NUMBER = 1_000_000
"""The least integer that is scanned: personal data have at least seven digits."""

REGIONS = ("US", "GB", "DE", "FR")
"""Countries whose national phone numbers are found by default, in order of precedence."""

# Every kind but addresses has six digits near each other.
_SPOT = re.compile(r"[0-9](?:[^0-9\n]{0,3}[0-9]){5}")
_SIGN = re.compile("@")

# A text without any of these, which include escapes and digits of other scripts, holds no match.
_ANY = re.compile(r"[0-9@%&\\]|[^\x00-\x7f]")

# Removing one value may expose another beside it.
_ROUNDS = 3


class Detector:
    """Finds *kinds* of personal data of *countries*, or of all, except values in *allow*.

    *region* is an additional country, known from the run's context.
    """

    def __init__(
        self,
        kinds: Iterable[str],
        countries: tuple[str, ...] | None,
        allow: Iterable[str],
        region: str = "",
    ) -> None:
        wanted, here = frozenset(kinds), (region,) if region else ()
        named = (*(countries or ()), *here)
        finders: dict[str, Find] = {
            "iban": find_ibans,
            "card": find_cards,
            "national-id": Identities((*(countries or identity_countries()), *here), named).find,
            "phone": Phones((*here, *(countries or REGIONS)), named).find,
        }
        numbers = [find for kind, find in finders.items() if kind in wanted]
        emails = [find_emails] if EMAIL in wanted else []
        self._finders = [
            (spot, chosen) for spot, chosen in ((_SPOT, numbers), (_SIGN, emails)) if chosen
        ]
        self._allowed = frozenset([value.lower().removeprefix("@") for value in allow])
        numbers_of = {identity.topic: identity.words for identity in facts().identities}
        self._vocabulary = Vocabulary({**facts().words, **numbers_of}, facts().ambiguous)

    async def clean(
        self,
        record: T,
        walk: Callable[[T, TextVisitor], T],
        name: Callable[[str, str], str],
        limits: ScanLimits,
        *,
        covers: Callable[[str], bool],
        keep_binary: bool,
    ) -> T:
        """Return *record*, whose texts *walk* visits, with each value replaced by *name*.

        *name* takes a kind and a value; see `PersonalDataVisitor` for *covers* and *keep_binary*.
        The scan yields to other tasks. Raises `UnexaminedError`.
        """
        appraisal, texts = Appraisal(limits), dict[tuple[str, str], str]()
        visitor = partial(PersonalDataVisitor, covers=covers, keep_binary=keep_binary)

        def gather(text: str, key: str) -> str:
            appraisal.read(len(text))
            texts[text, key] = text
            return text

        async def work() -> T:
            walk(record, visitor(gather))
            for text, key in texts:
                texts[text, key] = await self.replace(text, name, appraisal, key)
            # A text that the first walk missed was never scanned: the KeyError withholds it.
            return walk(record, visitor(lambda text, key: texts[text, key]))

        return await appraisal.spend(work())

    async def replace(
        self, text: str, name: Callable[[str, str], str], appraisal: Appraisal, key: str = ""
    ) -> str:
        """Return *text* with each value replaced by *name* of its kind and value.

        *key* is the name of the member that holds the text. Texts in base64 inside of it are
        scanned as well, and encoded again. Raises `UnexaminedError`.
        """
        if len(text) >= SHORTEST:
            data = text.encode(errors="surrogatepass")
            pieces, position = list[bytes](), 0
            for inner in encoded_texts(data):
                appraisal.check()
                new = await self._replace_plain(inner.text, name, appraisal, key)
                if new != inner.text:
                    pieces += [data[position : inner.start], inner.encoded(new).encode()]
                    position = inner.end
            if pieces:
                text = b"".join([*pieces, data[position:]]).decode(errors="surrogatepass")
        return await self._replace_plain(text, name, appraisal, key)

    async def _replace_plain(
        self, text: str, name: Callable[[str, str], str], appraisal: Appraisal, key: str
    ) -> str:
        for _ in range(_ROUNDS):
            matches = await self.find(text, appraisal, key)
            if not matches:
                return text
            pieces, end = [], 0
            for match in matches:
                pieces += [text[end : match.start], name(match.kind, match.value)]
                end = match.end
            text = "".join([*pieces, text[end:]])
        return text

    async def find(self, text: str, appraisal: Appraisal, key: str = "") -> list[PersonalDataMatch]:
        """Return the matches in *text*, in order, with overlapping matches merged."""
        if _ANY.search(text) is None:
            return []
        matches: list[PersonalDataMatch] = []
        for reading in readings(text):
            appraisal.check()
            await turn()
            topics = TextTopics(self._vocabulary, reading.text, key)
            for spot, finders in self._finders:
                for line in lines_with(spot, reading.text, topics):
                    for find in finders:
                        matches += [
                            located(match, reading)
                            for match in find(line, appraisal)
                            if match.end <= line.sure and not self._allows(reading.text, match)
                        ]
                    appraisal.check()
                    await turn()
        return merged(matches)

    def _allows(self, text: str, match: PersonalDataMatch) -> bool:
        if not self._allowed:
            return False
        written = text[match.start : match.end].lower()
        if match.value.lower() in self._allowed or written in self._allowed:
            return True
        if match.kind != "email":
            return False
        labels = match.value.rpartition("@")[2].split(".")
        return any(".".join(labels[index:]) in self._allowed for index in range(len(labels)))


class PersonalDataVisitor(TextVisitor):
    """Rewrites each text by *change*, and long numbers in JSON as texts.

    Binary parts are withheld unless *keep_binary*; parts that claim to be text and are not are
    always withheld. Calls are visited if *covers* returns True for the tool's name.
    """

    def __init__(self, change: Change, covers: Callable[[str], bool], *, keep_binary: bool) -> None:
        self._change, self._keep_binary, self._covers = change, keep_binary, covers

    def texts(self, texts: tuple[str, ...], key: str = "", /) -> tuple[str, ...]:
        """Return each of the *texts* changed."""
        return tuple([self._change(text, key) for text in texts])

    def json(self, value: Any) -> Any:
        """Return *value* with its texts, keys and long numbers changed."""
        return rewrite_json(value, self.texts, self._number)

    def part(self, part: Part) -> Part:
        """Return *part*, or a note in its place if it cannot be scanned."""
        if isinstance(part, TextPart):
            return part
        if isinstance(part, ResourcePart):
            data, mime_type = part.resource.blob, part.resource.mime_type or ""
        else:
            data, mime_type = part.data, part.mime_type
        if data is None:
            return part
        readable = text_in(data) is not None if is_text_type(mime_type) else self._keep_binary
        return part if readable else self._note(mime_type)

    def covers(self, tool_name: str) -> bool:
        """Return whether a model's call of *tool_name* is visited."""
        return self._covers(tool_name)

    def _number(self, value: int, key: str) -> Any:
        if abs(value) < _SMALLEST_NUMBER:
            return value
        text = str(value)
        return value if (new := self._change(text, key)) == text else new

    def _note(self, mime_type: str) -> TextPart:
        kind = self._change(mime_type[:100], "") or "unknown type"
        text = f"[A part of {kind} was withheld: only text can be scanned.]"
        return TextPart(text=text)
