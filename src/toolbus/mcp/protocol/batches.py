"""Batches of a client that are judged: how many frames one may hold, and its answer as an array.

Only the revision of 2025-03-26 has batches: its basic/index, "Batching"; JSON-RPC 2.0, section 6.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec import UNSET

from toolbus.mcp.protocol.canonical import Refusal
from toolbus.mcp.protocol.jsonrpc import INVALID_REQUEST, error_frame, read_frame, scan_top_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.session.request_table import Send

logger = logging.getLogger("toolbus")

MOST_IN_BATCH = 1_000
"""How many frames a batch may hold: each is judged, and is a request to the server by itself."""


class BatchResponse:
    """The answers to the *count* requests of a batch, sent as one array when all are there.

    See JSON-RPC 2.0, section 6.
    """

    def __init__(self, count: int, send: Send) -> None:
        self._count, self._send = count, send
        self._answers: list[bytes] = []

    def add(self, line: bytes) -> None:
        """Take one answer."""
        self._answers.append(line.strip())
        if len(self._answers) == self._count:
            self._send(b"[" + b",".join(self._answers) + b"]\n")


def refused_batch(batch: Sequence[bytes]) -> bytes | None:
    """Return the answer to a *batch* of which nothing goes on, None if it may.

    One that is too long gets an error for each of its requests, so that nobody waits for one; the
    answer is empty if it has none.
    """
    if not batch:
        return error_frame(None, INVALID_REQUEST, "a batch holds at least one frame")
    if len(batch) <= MOST_IN_BATCH:
        return None
    logger.warning("a batch of %d frames is refused", len(batch))
    reason = f"a batch holds at most {MOST_IN_BATCH} frames, not {len(batch)}; send several"
    errors = [error_frame(_id_of(part), INVALID_REQUEST, reason) for part in batch if _asks(part)]
    return b"[" + b",".join([error.strip() for error in errors]) + b"]\n" if errors else b""


def _asks(part: bytes) -> bool:
    frame = read_frame(part)
    return frame is None or frame.is_request


def _id_of(part: bytes) -> object:
    frame = read_frame(part)
    return scan_top_level(part)[0] if frame is None or frame.id is UNSET else frame.id


def wants_answer(canonical: Frame | Refusal) -> bool:
    """Tell whether the sender of a frame, as it may go on or not, waits for an answer."""
    return canonical.wants_answer if isinstance(canonical, Refusal) else canonical.is_request
