"""Session views: the labelled texts of a session in order, and those in view of each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.flow.labels import Label

if TYPE_CHECKING:
    from collections.abc import Sequence


class LabelledText(Struct, kw_only=True, eq=False):
    """The *texts* of one message with its *label*, said by *source*, "the result of web_fetch".

    Pieces of calls are searched in it only if it *is_source*: the messages of the session's own
    model are not, because their sources are in view themselves.
    """

    message_id: str
    role: str
    label: Label
    source: str
    texts: tuple[str, ...] = ()
    is_source: bool = True
    _index: Any = None


class SessionView:
    """The labelled texts of one session in order."""

    def __init__(self) -> None:
        self.texts: list[LabelledText] = []
        self.person_texts: list[str] = []
        self._calls: dict[str, int] = {}

    def before(self, call_id: str) -> Sequence[LabelledText]:
        """Return the texts in view when the message with the call *call_id* was made.

        A call without such a message is judged by all texts so far.
        """
        return self.texts[: self._calls.get(call_id, len(self.texts))]
