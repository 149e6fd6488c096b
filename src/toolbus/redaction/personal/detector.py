"""Personal data in a text, replaced: which kinds, of which countries, and whose not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.redaction.encoded import SHORTEST, encoded_texts
from toolbus.redaction.personal.accounts import CARD, CARD_WORDS, find_cards, find_ibans
from toolbus.redaction.personal.appraisal import Appraisal
from toolbus.redaction.personal.emails import EMAIL, EMAIL_WORDS, find_emails
from toolbus.redaction.personal.identities import Identities, words
from toolbus.redaction.personal.identity_forms import COUNTRIES
from toolbus.redaction.personal.lines import lines_with
from toolbus.redaction.personal.matches import located, merged
from toolbus.redaction.personal.phones import PHONE, PHONE_WORDS, Phones
from toolbus.redaction.personal.readings import readings
from toolbus.redaction.personal.words import TextTopics, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from typing import TypeAlias

    from toolbus.redaction.personal.lines import Line
    from toolbus.redaction.personal.matches import PersonalDataMatch

    Find: TypeAlias = Callable[[Line, Appraisal], Iterator[PersonalDataMatch]]

REGIONS = ("US", "GB", "DE", "FR")
"""Whose phone numbers are known in national form when no countries are asked for, in this order."""

# All that is no address has six digits near each other.
_SPOT = re.compile(r"[0-9](?:[^0-9\n]{0,3}[0-9]){5}")
_SIGN = re.compile("@")

# What has none of these, escapes and digits of other scripts among them, has nothing.
_ANY = re.compile(r"[0-9@%&\\]|[^\x00-\x7f]")

# What was taken out may have stood beside something else, which is plainer without it.
_ROUNDS = 3


class Detector:
    """Finds *kinds* of personal data, of *countries* or all; what is in *allow* is left.

    *region* is one more country, which is not the only one.
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
            "national-id": Identities((*(countries or COUNTRIES), *here), named).find,
            "phone": Phones((*here, *(countries or REGIONS)), named).find,
        }
        numbers = [find for kind, find in finders.items() if kind in wanted]
        emails = [find_emails] if EMAIL in wanted else []
        self._finders = [
            (spot, chosen) for spot, chosen in ((_SPOT, numbers), (_SIGN, emails)) if chosen
        ]
        self._allowed = frozenset([value.lower().removeprefix("@") for value in allow])
        vocabulary = {CARD: CARD_WORDS, PHONE: PHONE_WORDS, EMAIL: EMAIL_WORDS, **words()}
        self._vocabulary = Vocabulary(vocabulary)

    def replace(
        self,
        text: str,
        name: Callable[[str, str], str],
        appraisal: Appraisal | None = None,
        key: str = "",
    ) -> Generator[None, None, str]:
        """Return *text* with *name* of kind and value in place of what was found.

        *key* is the name of the member that it is the value of. A generator of slices of work:
        between two of them others may have their turn. Raises `UnexaminedError`.
        """
        appraisal = appraisal or Appraisal()
        text = yield from self._replace_encoded(text, name, appraisal, key)
        return (yield from self._replace_plain(text, name, appraisal, key))

    def _replace_encoded(
        self, text: str, name: Callable[[str, str], str], appraisal: Appraisal, key: str
    ) -> Generator[None, None, str]:
        """Replace what stands in texts that stand in *text* in base64, which they are again."""
        if len(text) < SHORTEST:
            return text
        data = text.encode(errors="surrogatepass")
        pieces, position = list[bytes](), 0
        for inner in encoded_texts(data):
            appraisal.check()
            new = yield from self._replace_plain(inner.text, name, appraisal, key)
            if new != inner.text:
                pieces += [data[position : inner.start], inner.encoded(new).encode()]
                position = inner.end
        if not pieces:
            return text
        return b"".join([*pieces, data[position:]]).decode(errors="surrogatepass")

    def _replace_plain(
        self, text: str, name: Callable[[str, str], str], appraisal: Appraisal, key: str
    ) -> Generator[None, None, str]:
        for _ in range(_ROUNDS):
            matches = yield from self.find(text, appraisal, key)
            if not matches:
                return text
            pieces, end = [], 0
            for match in matches:
                pieces += [text[end : match.start], name(match.kind, match.value)]
                end = match.end
            text = "".join([*pieces, text[end:]])
        return text

    def find(
        self, text: str, appraisal: Appraisal | None = None, key: str = ""
    ) -> Generator[None, None, list[PersonalDataMatch]]:
        """Return what is in *text*, in order; of what overlaps, the whole. In slices, as above."""
        if _ANY.search(text) is None:
            return []
        appraisal = appraisal or Appraisal()
        matches: list[PersonalDataMatch] = []
        for reading in readings(text):
            appraisal.check()
            yield
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
                    yield
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
