"""Whether all happened that the handlers are there for, and in numbers what they were good for."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, TOOL_CALL_ERROR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from toolbus.demo.account import Account, CallStory


class Totals(Struct, frozen=True, kw_only=True):
    """What the tools returned, what of it the model read and what the store's file holds."""

    characters_returned: int
    characters_read: int
    credentials_planted: int
    credentials_returned: int
    credentials_read: int
    credentials_stored: int


class Check(Struct, frozen=True, kw_only=True):
    """Whether *expected* happened, in which *calls*, and the component that it depends on."""

    expected: str
    component: str
    happened: bool
    calls: tuple[int, ...] = ()


def count(account: Account, credentials: Iterable[str], transcript: Path) -> Totals:
    """Return the totals of a run, credentials counted by searching for each of them."""
    planted = tuple(credentials)
    files = transcript.parent.glob(f"{transcript.name}*")
    stored = b"".join([file.read_bytes() for file in files])
    return Totals(
        characters_returned=sum([call.characters_returned for call in account.calls]),
        characters_read=sum([call.characters_read for call in account.calls]),
        credentials_planted=len(planted),
        credentials_returned=account.returned(planted),
        credentials_read=account.read(planted),
        credentials_stored=len([one for one in planted if one.encode() in stored]),
    )


def judge(calls: Iterable[CallStory], totals: Totals) -> tuple[Check, ...]:
    """Return a check for everything that was to happen."""
    seen = tuple(calls)
    checks = [_check("calls at the same time", "", _overlapping(seen))]
    for expected, component, happened in _EXPECTED:
        checks.append(_check(expected, component, [one for one in seen if happened(one)]))
    for place, leaked in (("read", totals.credentials_read), ("stored", totals.credentials_stored)):
        checks.append(
            Check(expected=f"no credential {place}", component="Secrets", happened=not leaked)
        )
    return tuple(checks)


def _check(expected: str, component: str, calls: Iterable[CallStory]) -> Check:
    numbers = tuple([call.number for call in calls])
    return Check(expected=expected, component=component, happened=bool(numbers), calls=numbers)


def _overlapping(calls: Iterable[CallStory]) -> list[CallStory]:
    """Return the calls that began before another one had ended."""
    pairs = [
        (one, two)
        for one, two in combinations(calls, 2)
        if one.began_ns < two.ended_ns and two.began_ns < one.ended_ns
    ]
    together = {call.number: call for pair in pairs for call in pair}
    return [together[number] for number in sorted(together)]


def _did(handler: str, did: str, event: str) -> Callable[[CallStory], bool]:
    def happened(call: CallStory) -> bool:
        return any((one.handler, one.did, one.event) == (handler, did, event) for one in call.deeds)

    return happened


def _was_denied(call: CallStory) -> bool:
    denied = _did("NoDestruction.forbid", "denied", TOOL_CALL_BEFORE.name)
    return denied(call) and call.status == "denied" and call.executed is None


def _was_approved(call: CallStory) -> bool:
    asked = _did("AskBeforePush.ask", "asked", TOOL_CALL_BEFORE.name)
    return asked(call) and call.approved is True and call.executed is not None


_EXPECTED: tuple[tuple[str, str, Callable[[CallStory], bool]], ...] = (
    ("credentials redacted", "Secrets", _did("Redact", "changed", MESSAGE_APPEND_BEFORE.name)),
    ("a log cut", "LongResults", _did("Shorten", "changed", MESSAGE_APPEND_BEFORE.name)),
    (
        "commands rewritten",
        "GitManners",
        _did("GitManners.rewrite", "changed", TOOL_CALL_BEFORE.name),
    ),
    ("a command denied", "NoDestruction", _was_denied),
    ("a person asked", "AskBeforePush", _was_approved),
    (
        "a failure answered",
        "MissingFiles",
        _did("MissingFiles.answer", "answered", TOOL_CALL_ERROR.name),
    ),
    ("an unknown tool explained", "", lambda call: call.status == "unknown_tool"),
)
