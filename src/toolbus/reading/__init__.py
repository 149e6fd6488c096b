"""What a store's file tells a person: its sessions, one of them, and the life of a message."""

from __future__ import annotations

from toolbus.reading.explaining import explain
from toolbus.reading.forgetting import forget_originals
from toolbus.reading.listing import list_sessions
from toolbus.reading.showing import show_session

__all__ = ["explain", "forget_originals", "list_sessions", "show_session"]
