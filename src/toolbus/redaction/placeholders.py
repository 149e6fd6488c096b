"""Placeholders of hidden values: `[github-pat-x7k2m5abcdefqrst]`, a kind and sixteen letters.

Twelve letters are a digest of the value, keyed with the user's key, and four are a digest of these
twelve. So every process of a session gives a value the same placeholder, and recognizes the
session's placeholders without any state. The digest of a value from a small set, such as a PIN,
could be found by trial wherever the key is used: such a digest includes a random salt as well,
which is stored with the session.
"""

from __future__ import annotations

import re
from base64 import b32encode
from collections import Counter
from collections.abc import Mapping
from hmac import digest
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.errors import RegistrationError
from toolbus.redaction.limits import UnexaminedError
from toolbus.settings.user_key import SIZE, value_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.components.state import State

T = TypeVar("T")

FEW_VALUES = frozenset(
    {
        *("phone", "card", "iban", "national-id"),
        *("pin", "passcode", "otp", "postcode", "postal-code", "zip-code"),
        *("date", "birth-date", "date-of-birth", "birthday", "age"),
    }
)
"""Kinds whose values can all be tried out. Kinds without a finder are for users' own rules."""

_FEW_LETTERS, _FEW_DIGITS = 6, 12
"""Characters of a value, and digits of one without letters, that can be tried out in any kind."""

_TWELVE, _SALT = 12, re.compile("[0-9a-f]{32}")
_LETTERS = r"[a-z][a-z2-7]{15}"
KIND = r"[a-z0-9][a-z0-9-]{0,79}"
NUMBER, SUFFIX = r"[1-9]\d{0,8}", r"[a-z][a-z2-7]{5}"
"""Until 0.3 a placeholder had a number and, for a secret, the suffix of its session."""

LETTERS = re.compile(rf"-({_LETTERS})(?![A-Za-z0-9])")
"""The end of a placeholder; its brackets may be escaped, as in a URL or an expression."""

PLACEHOLDER_END = rf"-(?:{_LETTERS}|{NUMBER}(?:-{SUFFIX})?)\]"
"""An expression for the text behind the kind. Personal data had no suffix."""

_PLACEHOLDER = re.compile(rf"\[({KIND})-(?:{_LETTERS}|{NUMBER}-{SUFFIX})\]")
_IN_BYTES = re.compile(_PLACEHOLDER.pattern.encode())
_ANY = re.compile(rf"\[{KIND}{PLACEHOLDER_END}")


class SaltMissingError(UnexaminedError):
    """A value from a small set was found before the session's salt was drawn."""


class SessionPlaceholders:
    """The placeholders of the root session *session* and of its sub-sessions."""

    def __init__(self, session: str) -> None:
        self._session, self._salt = session, ""
        self._state: State | None = None
        self._key: bytes | None = None

    def begin(self, state: State | None, key: bytes | None = None) -> None:
        """Use *state* for the salt from now on, and for the key if *key* is None."""
        self._state = state
        if key is not None:
            self._key = key

    def of(self, kind: str, value: str) -> str:
        """Return the placeholder of *value*. Raises `SaltMissingError`, see `salted`."""
        salt = ""
        if _is_one_of_few(kind, value):
            if not self._salt:
                raise SaltMissingError("its session has no salt yet")
            salt = self._salt
        return self._named(kind, "value", kind, value, salt)

    def shared(self, kind: str) -> str:
        """Return the placeholder shared by all values of *kind*."""
        return self._named(kind, "shared", kind)

    def is_own(self, letters: str) -> bool:
        """Return whether *letters* end a placeholder of this session."""
        return self._check(letters[:_TWELVE]) == letters[_TWELVE:]

    async def salted(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of *work*, called again if the session's salt has to be drawn first.

        The second call happens once in a process; *work* must be repeatable. Raises `StoreError`.
        """
        try:
            return await work()
        except SaltMissingError:
            self._salt = await self._drawn()
            return await work()

    async def _drawn(self) -> str:
        """Return the salt of the session; the first process draws it."""
        fresh = token_hex(16)
        if self._state is None:
            return fresh

        def drawn(stored: Any) -> dict[str, Any]:
            before = stored if isinstance(stored, Mapping) else {}
            return {**before, "salt": _salt_in(before) or fresh}

        return _salt_in(await self._state.update(drawn))

    def _named(self, kind: str, *fields: str) -> str:
        first, *rest = self._digest(*fields)
        # A letter first: a digit behind the hyphen would look like a number of 0.3.
        twelve = chr(ord("a") + first % 26) + _base32(bytes(rest))[: _TWELVE - 1]
        return f"[{kind}-{twelve}{self._check(twelve)}]"

    def _check(self, twelve: str) -> str:
        return _base32(self._digest("check", twelve))[:4]

    def _digest(self, *fields: str) -> bytes:
        if self._key is None:
            # Without a durable key this process has one of its own.
            lasting = None if self._state is None else self._state.digest_key()
            self._key = lasting or value_key(durable=False) or b""
        texts = [text.encode(errors="surrogatepass") for text in (self._session, *fields)]
        return digest(
            self._key, b"".join([len(text).to_bytes(8) + text for text in texts]), "sha256"
        )


def checked_key(key: object) -> bytes | None:
    """Return a component's *key*, checked. Raises `RegistrationError`."""
    if key is None or (isinstance(key, bytes) and len(key) >= SIZE):
        return key
    raise RegistrationError("key", f"expected at least {SIZE} bytes")


def kind_of(placeholder: str) -> str:
    """Return the kind of *placeholder*."""
    match = _PLACEHOLDER.fullmatch(placeholder)
    return match[1] if match else ""


def evened(text: str) -> str:
    """Return *text* with its placeholders numbered in order, to compare texts across sessions."""
    numbers, known = Counter[str](), dict[str, str]()

    def number(match: re.Match[str]) -> str:
        if match[0] not in known:
            numbers[match[1]] += 1
            known[match[0]] = f"[{match[1]}-{numbers[match[1]]}]"
        return known[match[0]]

    return _PLACEHOLDER.sub(number, text) if "[" in text else text


def without_placeholders(text: str) -> str:
    """Return *text* without its placeholders."""
    return _ANY.sub("", text) if "[" in text else text


def placeholders_in(text: str) -> list[str]:
    """Return the texts in *text* that look like a placeholder, in order."""
    return [match[0] for match in _PLACEHOLDER.finditer(text)] if "[" in text else []


def kinds_in(text: str) -> list[tuple[str, str]]:
    """Return the texts in *text* that look like a placeholder, each after its kind."""
    return [(kind_of(placeholder), placeholder) for placeholder in placeholders_in(text)]


def placeholder_spans(data: bytes) -> list[tuple[int, int]]:
    """Return the spans of *data*, UTF-8, that look like a placeholder."""
    return [match.span() for match in _IN_BYTES.finditer(data)]


def restored(text: str, value: Callable[[str], str | None]) -> str:
    """Return *text* with *value* of each placeholder; one without a value stays."""
    if "[" not in text:
        return text
    return _PLACEHOLDER.sub(lambda match: value(match[0]) or match[0], text)


def _is_one_of_few(kind: str, value: str) -> bool:
    """Return whether somebody could try out all values that *value* may be."""
    if kind in FEW_VALUES or len(value) <= _FEW_LETTERS:
        return True
    has_letters = any(map(str.isalpha, value))
    return not has_letters and sum(map(str.isdigit, value)) <= _FEW_DIGITS


def _salt_in(stored: Mapping[str, Any]) -> str:
    salt = stored.get("salt")
    return salt if isinstance(salt, str) and _SALT.fullmatch(salt) else ""


def _base32(data: bytes) -> str:
    return b32encode(data).decode().lower()
