"""Fresh ids for messages, calls and runs."""

from __future__ import annotations

import os


def new_id() -> str:
    """Return an id that nothing else has: 64 random bits as text."""
    return os.urandom(8).hex()
