"""A log line for each request of a client: time, method, name, outcome and duration.

Arguments, URIs and texts of responses are left out, because they may be secret. Other values chosen
by a client or server appear only if they are names of harmless characters.
"""

from __future__ import annotations

import logging
import os
import stat
from datetime import UTC, datetime
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from toolbus.mcp.protocol.jsonrpc import REFUSED, SERVER_GONE, read_batch, read_frame
from toolbus.mcp.protocol.revisions import cancelled_id, is_tool_name, params_of
from toolbus.settings.private_files import is_private

if TYPE_CHECKING:
    from pathlib import Path

    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.session.request_table import Channels

logger = logging.getLogger("toolbus")

_STDERR = 2
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OUTCOMES = {REFUSED: "refused", SERVER_GONE: "no_answer"}


def open_log(file: Path | None) -> int:
    """Open *file*, None for standard error, and return its descriptor.

    Raises `OSError`, also if *file* is not a regular file or is accessible to other users.
    """
    if file is None:
        return _STDERR
    number = os.open(file, _FLAGS, 0o600)
    status = os.fstat(number)
    if not (stat.S_ISREG(status.st_mode) and is_private(status)):
        os.close(number)
        reason = "expected a regular file private to you; run chmod 600 on it"
        raise PermissionError(0, reason, str(file))
    return number


class RequestLog:
    """A log on the descriptor *number* of the requests to *server*.

    None stands for a group of servers, where the name of a tool begins with its server's name.
    """

    def __init__(self, number: int, server: str | None) -> None:
        self._number = number
        # The file name only: a path may hold spaces and private names.
        self._server = None if server is None else _safe_name(server.rpartition("/")[2])
        self._works = True

    def session(self, session_id: str) -> SessionRequests:
        """Return the log of the requests of a session."""
        return SessionRequests(self, session_id)

    def write(self, session_id: str, request: LoggedRequest, outcome: str, size: int) -> None:
        """Write the line of *request*: its *outcome*, and the *size* of the response in bytes."""
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        server = self._server or request.name.partition("_")[0] or "-"
        took = (perf_counter_ns() - request.began_ns) / 1e6
        line = (
            f"time={moment} session={session_id[-8:]} server={server} method={request.method}"
            f" name={request.name or '-'} outcome={outcome} ms={took:.1f}"
            f" in={request.size} out={size}\n"
        )
        try:
            os.write(self._number, line.encode())
            self._works = True
        except OSError as error:
            if self._works:
                logger.warning("cannot write the request log: %s", error.strerror)
            self._works = False


class LoggedRequest(Struct):
    """A request of *size* bytes for *name*; *status* is the outcome of a tool call at handlers."""

    method: str
    name: str
    size: int
    began_ns: int
    status: str | None = None


class SessionRequests:
    """The open requests of the session *session_id*, to be written to *log*."""

    def __init__(self, log: RequestLog, session_id: str) -> None:
        self._log, self._session_id = log, session_id
        self._open: dict[Any, LoggedRequest] = {}

    def begin(self, line: bytes, channels: Channels) -> Channels:
        """Register the requests in *line*; return *channels* that also log the responses."""
        batch = read_batch(line)
        for part in [line] if batch is None else batch:
            frame = read_frame(part)
            if frame is None and part.strip():
                self._write(_logged(None, part), "unreadable", 0)
            elif frame is not None and frame.is_request:
                self._end(frame.id, "no_answer", 0)
                self._open[frame.id] = _logged(frame, part)
            elif (request_id := cancelled_id(frame)) is not UNSET:
                self._end(request_id, "cancelled", 0)

        def answer(answered: bytes) -> None:
            self._log_responses(answered)
            channels.reply(answered)

        return channels._replace(answer=answer, settle=self._settle)

    def close(self) -> None:
        """Write the lines of unanswered requests."""
        for request_id in tuple(self._open):
            self._end(request_id, "no_answer", 0)

    def _settle(self, request_id: Any, status: str) -> None:
        if (request := self._open.get(request_id)) is not None:
            request.status = status

    def _log_responses(self, line: bytes) -> None:
        batch = read_batch(line)
        for part in [line] if batch is None else batch:
            frame = read_frame(part)
            if frame is not None and frame.is_response:
                self._end(frame.id, _outcome(frame), len(part.strip()))

    def _end(self, request_id: Any, outcome: str, size: int) -> None:
        if (request := self._open.pop(request_id, None)) is not None:
            self._write(request, request.status or outcome, size)

    def _write(self, request: LoggedRequest, outcome: str, size: int) -> None:
        self._log.write(self._session_id, request, outcome, size)


def _logged(frame: Frame | None, line: bytes) -> LoggedRequest:
    method = _safe_name(None if frame is None else frame.method)
    name = params_of(frame).get("name")
    size = len(line.strip())
    return LoggedRequest(method, "" if name is None else _safe_name(name), size, perf_counter_ns())


def _safe_name(name: object) -> str:
    """Return *name* if it is a valid tool name, else "?", so that log lines stay unambiguous."""
    return str(name) if is_tool_name(name) else "?"


def _outcome(frame: Frame) -> str:
    """Return the outcome in the response *frame*, in one word."""
    if frame.failed:
        code = frame.error.get("code") if isinstance(frame.error, dict) else None
        return _OUTCOMES.get(code, f"error:{code}") if isinstance(code, int) else "error"
    failed = isinstance(frame.result, dict) and frame.result.get("isError") is True
    return "error" if failed else "ok"
