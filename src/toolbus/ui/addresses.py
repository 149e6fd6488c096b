"""Addresses of pages, and the numbers in them."""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode


def address(kind: str, session_id: str, name: str = "", **query: object) -> str:
    """Return the address of the page of *kind* for a session, or for its message or call *name*."""
    names = (session_id, name) if name else (session_id,)
    path = "/".join([quote(text, safe="") for text in names])
    return f"/{kind}/{path}" + (f"?{urlencode(query)}" if query else "")


def number_of(text: str) -> int:
    """Return the number in the query *text*, 0 for any other text."""
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else 0
