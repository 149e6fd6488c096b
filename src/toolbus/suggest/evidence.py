"""The asked calls of a store: each with its answer, and the reason why it is not evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from toolbus.messages.records import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.store_reader import StoreReader

Answer: TypeAlias = Literal["yes", "no", "open", "unknown"]


class AskedCall(Struct, frozen=True, kw_only=True):
    """A call about which a person was asked, and the answer; times are nanoseconds since the epoch.

    The session began in the folder *project*, and the call in *folder*, both absolute or "" if
    unknown. Its agent works below the session *root*, which is its own without one above. *by* and
    *channel* are the person and the channel of the answer, *rule* names the rules that asked, one
    per line. *unfit* is the reason why the call is not evidence, or "".
    """

    session_id: str
    root: str = ""
    call: ToolCall
    folder: str = ""
    project: str = ""
    asked_ns: int = 0
    answered_ns: int = 0
    answer: Answer = "unknown"
    by: str = ""
    channel: str = ""
    rule: str = ""
    unfit: str = ""


def read_asked_calls(reader: StoreReader) -> Iterator[AskedCall]:
    """Yield the asked calls of all sessions of *reader*, the oldest session first."""
    _ = reader
    yield from ()
