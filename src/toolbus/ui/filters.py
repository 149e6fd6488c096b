"""The filters and functions of the templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from toolbus.approvals.display import state_words
from toolbus.history import entry_texts
from toolbus.history.durations import rough_duration
from toolbus.settings.visible_text import shorten_visible

if TYPE_CHECKING:
    from collections.abc import Callable


def address(kind: str, session_id: str, name: str = "", **query: object) -> str:
    """Return the address of the page of *kind* for a session, or for its message or call *name*."""
    path = "/".join([quote(text, safe="") for text in (session_id, name) if text])
    return f"/{kind}/{path}" + (f"?{urlencode(query)}" if query else "")


FILTERS: dict[str, Callable[..., Any]] = {
    "brief": shorten_visible,
    "rough": rough_duration,
    "state_words": state_words,
}
GLOBALS: dict[str, Any] = {"address": address, "texts": entry_texts}
