"""Fresh ids for messages, calls and runs."""

from __future__ import annotations

from secrets import token_hex


def new_id() -> str:
    """Return an id that nothing else has: 64 random bits as text."""
    return token_hex(8)
