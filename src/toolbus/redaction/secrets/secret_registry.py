"""What is known of the secrets of one session: their placeholders, and the way back."""

from __future__ import annotations

from collections import Counter, OrderedDict
from threading import RLock
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from weakref import WeakSet

from msgspec import Struct
from msgspec.structs import replace

from toolbus.redaction.placeholders import (
    SessionPlaceholders,
    kind_of,
    placeholders_in,
    restored,
)
from toolbus.redaction.secrets.randomness import is_telling
from toolbus.redaction.secrets.secret_search import SecretSearch
from toolbus.tasks.loops import LoopLock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from toolbus.redaction.live_placeholders import FormerPlaceholders

K = TypeVar("K")
T = TypeVar("T")
Caller: TypeAlias = tuple[str, str]
"""The session of an agent and the id of its call, below which a sub-agent runs."""

MAX_SECRETS, MAX_CHARS, MAX_SESSIONS = 1_024, 131_072, 256
"""Known secrets and letters of them that are kept for a session, and sessions; the oldest go.

With 1,024 of 40 letters, examining takes twice as long as without any.
"""

MAX_ASSUMED, MAX_ASSUMED_CHARS = 1_024, 262_144
"""The same for what is only assumed: it is not searched for, so more of it costs no time."""

_STREAMS, _REMEMBERED, _TAIL = 16, 1_024, 512


class Secret(Struct, frozen=True):
    """A secret, first in the *forms* in which it may be written: the value that is given back.

    Its *digested* form is the one that the *placeholder* is made of; None if two secrets have this
    placeholder, of which none is given back. An *assumed* one goes by the name that it was assigned
    to, and may be none at all. *record* is the number of the record in which it was found.
    """

    placeholder: str
    digested: str | None
    forms: tuple[str, ...]
    assumed: bool = False
    record: int = 0


_LONG_LINE = 32
"""Letters from which a line of a secret of several lines is one by itself."""


class SecretRegistry:
    """The secrets of one session, of which the latest are kept."""

    def __init__(self, session: str = "") -> None:
        self.placeholders = SessionPlaceholders(session)
        self.former: FormerPlaceholders | None = None
        """The placeholders of 0.3, once they were read."""
        self._known = _LatestSecrets(MAX_SECRETS, MAX_CHARS)
        self._assumed = _LatestSecrets(MAX_ASSUMED, MAX_ASSUMED_CHARS)
        self._by_form: dict[str, Secret] = {}
        self._record = 0
        self.lock = LoopLock()
        self.search = SecretSearch()
        """The search for telling secrets; its rules are the placeholders."""
        self._tails: OrderedDict[str, str] = OrderedDict()
        self._incoming: OrderedDict[str, None] = OrderedDict()
        self._answers: OrderedDict[Caller, set[str]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known) + len(self._assumed)

    def placeholder(
        self, value: str, rule: str, also: str | None = None, *, assumed: bool = False
    ) -> str:
        """Return what stands for *value*, which *rule* found: always the same.

        It stands for *also* as well, which may be the same value written in another way. What is
        *assumed* to be a secret is not searched for elsewhere, until something else shows that it
        is one. Raises `SaltMissingError`.
        """
        if (secret := self._by_form.get(value)) is not None:
            return self._used(secret, known=not assumed)
        # Whichever form a process meets first, the placeholder is that of the plainest.
        plain = value if also is None else also
        placeholder, is_one = self.placeholders.of(rule, plain), True
        forms = (value,) if also is None or also in self._by_form else (value, also)
        if (same := self._secret(placeholder)) is not None:
            forms, assumed = (*same.forms, *forms), assumed and same.assumed
            is_one = same.digested == plain
            self._forget(same)
        digested = plain if is_one else None
        secret = Secret(placeholder, digested, forms, assumed, self._record)
        self._by_form.update(dict.fromkeys(forms, secret))
        self._keep(secret)
        return placeholder

    def shared_placeholder(self, rule: str) -> str:
        """Return what stands for all values that *rule* found and that nobody tells apart."""
        return self.placeholders.shared(rule)

    def shrink(self) -> None:
        """End a record: let secrets go until no more is kept than may be.

        They go from the record that brought most, the oldest first: so a flood, which may be
        somebody's purpose, takes the place of its own secrets and not of those that are in use.
        """
        self._record += 1
        for secrets in (self._known, self._assumed):
            while (oldest := secrets.surplus()) is not None:
                self._forget(oldest)

    def restored(self, text: str) -> str:
        """Return *text* with the values in place of their placeholders, which are known now."""
        return restored(text, self._value)

    def note_written(self, text: str) -> None:
        """Note that what is behind placeholders in *text*, also what was only assumed, is secret.

        A tool may tell of a file that it wrote a part: of a key of several lines each is one.
        """
        for name in placeholders_in(text):
            for line in self.restored(name).splitlines()[1:-1]:
                if len(line) >= _LONG_LINE:
                    self.placeholder(line.strip(), kind_of(name))

    def assumed_value(self, placeholder: str) -> str | None:
        """Return the value of *placeholder* if it is only assumed to be a secret, and stays so."""
        secret = self._assumed.get(placeholder)
        return None if secret is None else secret.forms[0]

    def without_known(self, text: str) -> str:
        """Return *text* without the placeholders whose values are known now."""
        return restored(text, lambda name: " " if self._meant(name) else None)

    def is_new(self, message_id: str) -> bool:
        """Tell whether what a tool returned comes for the first time in the message *message_id*.

        What one component made of it comes to the next one, with placeholders in it.
        """
        is_new = message_id not in self._incoming
        if message_id:
            _remember(self._incoming, message_id, None)
        return is_new

    def note_answer(self, caller: Caller, text: str) -> None:
        """Note the placeholders that a sub-agent said in *text*, below the call *caller*."""
        if names := placeholders_in(text):
            _remember(self._answers, caller, {*names, *self._answers.get(caller, ())})

    def answered(self, caller: Caller) -> Collection[str]:
        """Return the placeholders that sub-agents of *caller* have said, once."""
        return self._answers.pop(caller, ())

    def tail(self, stream: str) -> str:
        """Return what the latest text of *stream* ended with."""
        return self._tails.get(stream, "")

    def follow(self, stream: str, text: str) -> None:
        """Remember the end of *text*, the latest one of *stream*."""
        _remember(self._tails, stream, text[-_TAIL:], _STREAMS)

    def _value(self, placeholder: str) -> str | None:
        secret = self._meant(placeholder)
        if secret is None:
            return None
        self._used(secret, known=True)
        return secret.forms[0]

    def _meant(self, placeholder: str) -> Secret | None:
        """Return the secret that *placeholder*, which may be one of 0.3, stands for, or None."""
        secret = self._secret(placeholder)
        if secret is None and self.former is not None:
            value = self.former.value_of(placeholder, self._by_form)
            secret = None if value is None else self._by_form[value]
        return None if secret is None or secret.digested is None else secret

    def _used(self, secret: Secret, *, known: bool) -> str:
        """Note that *secret* was met again, and if it is *known* that it is one."""
        if secret.assumed and known:
            self._forget(secret)
            secret = replace(secret, assumed=False)
            self._by_form.update(dict.fromkeys(secret.forms, secret))
            self._keep(secret)
        latest = self._assumed if secret.assumed else self._known
        latest.refresh(secret)
        return secret.placeholder

    def _keep(self, secret: Secret) -> None:
        if secret.assumed:
            self._assumed.add(secret)
            return
        self._known.add(secret)
        for form in secret.forms:
            if is_telling(form):
                self.search.add(form, secret.placeholder)

    def _forget(self, secret: Secret) -> None:
        latest = self._assumed if secret.assumed else self._known
        latest.remove(secret)
        for form in secret.forms:
            del self._by_form[form]
            self.search.remove(form)

    def _secret(self, placeholder: str) -> Secret | None:
        return self._known.get(placeholder) or self._assumed.get(placeholder)


class _LatestSecrets:
    """Secrets by their placeholders, the one that was used longest ago first."""

    def __init__(self, limit: int, limit_chars: int) -> None:
        self._secrets: OrderedDict[str, Secret] = OrderedDict()
        self._limit, self._limit_chars, self._chars = limit, limit_chars, 0

    def __len__(self) -> int:
        return len(self._secrets)

    def get(self, placeholder: str) -> Secret | None:
        return self._secrets.get(placeholder)

    def add(self, secret: Secret) -> None:
        self._secrets[secret.placeholder] = secret
        self._chars += _size(secret)

    def remove(self, secret: Secret) -> None:
        del self._secrets[secret.placeholder]
        self._chars -= _size(secret)

    def refresh(self, secret: Secret) -> None:
        self._secrets.move_to_end(secret.placeholder)

    def surplus(self) -> Secret | None:
        """Return a secret that is to go if there are more than may be kept, else None."""
        weigh: Callable[[Secret], int]
        if len(self._secrets) > self._limit:
            weigh = _count
        elif self._chars > self._limit_chars:
            weigh = _size
        else:
            return None
        weights: Counter[int] = Counter()
        for secret in self._secrets.values():
            weights[secret.record] += weigh(secret)
        # Of several the first that is met, which has the oldest secret.
        ((record, _),) = weights.most_common(1)
        return next(secret for secret in self._secrets.values() if secret.record == record)


def _count(_: Secret) -> int:
    return 1


def _size(secret: Secret) -> int:
    return sum(map(len, secret.forms))


class SessionRegistries:
    """A registry for each session; the sessions that spoke last have one.

    All components of a bus share them, so that a vault has what another component found. *vaults*
    are those that give values out. Threads hold the *lock* while they use a registry.
    """

    def __init__(self) -> None:
        self._registries: OrderedDict[str, SecretRegistry] = OrderedDict()
        self.vaults: WeakSet[object] = WeakSet()
        self.lock = RLock()

    def __len__(self) -> int:
        return len(self._registries)

    def of(self, session: str) -> SecretRegistry:
        """Return the registry of *session*, a new one if it has none."""
        registry = self._registries.get(session)
        if registry is None:
            registry = SecretRegistry(session)
            _remember(self._registries, session, registry, MAX_SESSIONS)
        else:
            self._registries.move_to_end(session)
        return registry


def _remember(memory: OrderedDict[K, T], key: K, value: T, limit: int = _REMEMBERED) -> None:
    """Put *value* into *memory*, which keeps the latest *limit* of all."""
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > limit:
        memory.popitem(last=False)
