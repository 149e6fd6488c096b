"""The registry of one session's secrets: their placeholders, and the way back to the values."""

from __future__ import annotations

from collections import Counter, OrderedDict
from threading import RLock
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from weakref import WeakSet

from msgspec import Struct
from msgspec.structs import replace

from toolbus.redaction.placeholders import SessionPlaceholders, kind_of, placeholders_in, restored
from toolbus.redaction.secrets.randomness import is_telling
from toolbus.redaction.secrets.secret_search import SecretSearch
from toolbus.tasks.loops import LoopLock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from toolbus.redaction.live_placeholders import FormerPlaceholders

K = TypeVar("K")
T = TypeVar("T")
Caller: TypeAlias = tuple[str, str]
"""The session of an agent and the id of its call that runs a sub-agent."""

MAX_SECRETS, MAX_CHARS, MAX_SESSIONS = 1_024, 131_072, 256
"""Known secrets and their characters kept for a session, and sessions; the oldest are dropped.

With 1,024 secrets of 40 characters a scan takes twice as long as without any.
"""

MAX_ASSUMED, MAX_ASSUMED_CHARS = 1_024, 262_144
"""The same for assumed secrets, which are not searched for and so cost no time."""

_STREAMS, _REMEMBERED, _TAIL = 16, 1_024, 512


class Secret(Struct, frozen=True):
    """A secret and the *forms* in which it may be written; the first form is the value given back.

    The *placeholder* is a digest of the form *digested*, which is None if two secrets share the
    placeholder; then neither is given back. An *assumed* secret was found by its name and may not
    be one. *record* is the number of the record in which it was found.
    """

    placeholder: str
    digested: str | None
    forms: tuple[str, ...]
    assumed: bool = False
    record: int = 0


_LONG_LINE = 32
"""Characters from which a line of a secret of several lines counts as a secret too."""


class SecretRegistry:
    """The latest secrets of one session."""

    def __init__(self, session: str = "") -> None:
        self.placeholders = SessionPlaceholders(session)
        self.former: FormerPlaceholders | None = None
        """The placeholders of 0.3, after they were read."""
        self._known = _LatestSecrets(MAX_SECRETS, MAX_CHARS)
        self._assumed = _LatestSecrets(MAX_ASSUMED, MAX_ASSUMED_CHARS)
        self._by_form: dict[str, Secret] = {}
        self._record = 0
        self.lock = LoopLock()
        self.search = SecretSearch()
        """The search for distinctive secrets; its rules are named by placeholders."""
        self._tails: OrderedDict[str, str] = OrderedDict()
        self._incoming: OrderedDict[str, None] = OrderedDict()
        self._answers: OrderedDict[Caller, set[str]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known) + len(self._assumed)

    def placeholder(
        self, value: str, rule: str, also: str | None = None, *, assumed: bool = False
    ) -> str:
        """Return the placeholder of *value*, found by *rule*: always the same.

        It also stands for *also*, another form of the value. An *assumed* secret is not searched
        for elsewhere until another match confirms it. Raises `SaltMissingError`.
        """
        if (secret := self._by_form.get(value)) is not None:
            return self._used(secret, known=not assumed)
        # The placeholder is that of the plainest form, whichever form a process meets first.
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
        """Return the placeholder shared by values of *rule* that are not told apart."""
        return self.placeholders.shared(rule)

    def shrink(self) -> None:
        """End a record: drop secrets until the limits are met.

        Secrets of the record that brought most are dropped, the oldest first: so a flood, which may
        be an attack, displaces its own secrets and not those in use.
        """
        self._record += 1
        for secrets in (self._known, self._assumed):
            while (oldest := secrets.surplus()) is not None:
                self._forget(oldest)

    def restored(self, text: str) -> str:
        """Return *text* with values in place of the placeholders that are known."""
        return restored(text, self._value)

    def note_written(self, text: str) -> None:
        """Note that the values of placeholders in *text* are secrets, also the assumed ones.

        A tool may report a part of a file that it wrote, so each line of a long key counts as one.
        """
        for name in placeholders_in(text):
            for line in self.restored(name).splitlines()[1:-1]:
                if len(line) >= _LONG_LINE:
                    self.placeholder(line.strip(), kind_of(name))

    def assumed_value(self, placeholder: str) -> str | None:
        """Return the value of *placeholder* if it is only an assumed secret; it stays assumed."""
        secret = self._assumed.get(placeholder)
        return None if secret is None else secret.forms[0]

    def without_known(self, text: str) -> str:
        """Return *text* without the placeholders whose values are known."""
        return restored(text, lambda name: " " if self._meant(name) else None)

    def is_new(self, message_id: str) -> bool:
        """Return whether the message *message_id* is seen for the first time.

        The next component sees the same message again, with placeholders of the first in it.
        """
        is_new = message_id not in self._incoming
        if message_id:
            _remember(self._incoming, message_id, None)
        return is_new

    def note_answer(self, caller: Caller, text: str) -> None:
        """Note the placeholders in a sub-agent's answer *text*, below the call *caller*."""
        if names := placeholders_in(text):
            _remember(self._answers, caller, {*names, *self._answers.get(caller, ())})

    def answered(self, caller: Caller) -> Collection[str]:
        """Return the placeholders in answers of sub-agents of *caller*, and forget them."""
        return self._answers.pop(caller, ())

    def tail(self, stream: str) -> str:
        """Return the end of the latest text of *stream*."""
        return self._tails.get(stream, "")

    def follow(self, stream: str, text: str) -> None:
        """Remember the end of *text*, the latest text of *stream*."""
        _remember(self._tails, stream, text[-_TAIL:], _STREAMS)

    def _value(self, placeholder: str) -> str | None:
        secret = self._meant(placeholder)
        if secret is None:
            return None
        self._used(secret, known=True)
        return secret.forms[0]

    def _meant(self, placeholder: str) -> Secret | None:
        """Return the secret of *placeholder*, which may be of 0.3, or None."""
        secret = self._secret(placeholder)
        if secret is None and self.former is not None:
            value = self.former.value_of(placeholder, self._by_form)
            secret = None if value is None else self._by_form[value]
        return None if secret is None or secret.digested is None else secret

    def _used(self, secret: Secret, *, known: bool) -> str:
        """Note that *secret* was found again, and whether it is *known* now."""
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
    """Secrets by their placeholders, the least recently used first."""

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
        """Return the secret to drop if a limit is exceeded, else None."""
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
        # The first of equal records has the oldest secret.
        ((record, _),) = weights.most_common(1)
        return next(secret for secret in self._secrets.values() if secret.record == record)


def _count(_: Secret) -> int:
    return 1


def _size(secret: Secret) -> int:
    return sum(map(len, secret.forms))


class SessionRegistries:
    """The registries of the most recent sessions.

    All components of a bus share them, so that a vault knows the secrets found by another
    component. *vaults* are the components that give values out. Threads hold the *lock* while they
    use a registry.
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
    """Put *value* into *memory*, which keeps the latest *limit* entries."""
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > limit:
        memory.popitem(last=False)
