"""The session files of Claude Code: JSON Lines of events, most of them messages.

There is no published schema. The reader relies on: `type` is the kind of a line; lines of `user`
and `assistant` have an API message in `message`; an assistant message is spread over several lines
with the same `message.id`, one content block each (github.com/daymade/claude-code-skills, pull
472); lines of a sub-agent have `isSidechain` and are linked by `parentUuid`, in newer versions by
`agentId` in a file of their own (github.com/alicoding/claude-parser, docs/JSONL-STRUCTURE.md).
`toolUseResult` is the client's copy of a result for its screen, which the model never reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.formats.anthropic_messages import answer_items, answer_message, user_messages
from toolbus.formats.items import Item, MessageItem, SessionEnd, SessionStart, SkippedLine
from toolbus.formats.json_input import ToolNames, parse, unexpected

if TYPE_CHECKING:
    from toolbus.formats.answers import AnswerItem
    from toolbus.messages.records import Message

_MAX_BLOCKS = 1_000
_MAX_CHAINS = 64


class ClaudeCode:
    """A reader of a session file; sub-agents become sessions of their own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._sessions: dict[str, _ClaudeSession] = {}
        self._chains: dict[str, int] = {}
        self._started = 0

    @staticmethod
    def recognizes(line: dict[str, Any]) -> bool:
        """Return whether *line* looks like a line of Claude Code."""
        return any(field in line for field in ("sessionId", "session_id", "uuid", "leafUuid"))

    def feed(self, number: int, data: bytes) -> list[Item]:
        """Return the items that a line adds or completes."""
        line = parse(data)
        match line:
            case {"type": "user" | "assistant", "isApiErrorMessage": True}:
                return [SkippedLine(number, "api error")]
            case {"type": "user" | "assistant", "isVisibleInTranscriptOnly": True}:
                return [SkippedLine(number, "shown only")]
            case {"type": "user", "message": {"content": content}}:
                message_id = _id_of(line, number)
                return self._update(line, lambda it: it.add_user(content, message_id))
            case {"type": "assistant", "message": {"content": content, **facts}}:
                message_id, answer = (
                    _id_of(line, number),
                    answer_items(content, "$.message.content"),
                )
                return self._update(line, lambda it: it.add_answer(answer, facts, message_id))
            case {"type": "user" | "assistant"}:
                raise unexpected("a message with content", line.get("message"), "$.message")
            case {"type": str(kind)} if kind:
                return [SkippedLine(number, kind)]
        raise unexpected("an object with a type", line, "$")

    def end(self) -> list[Item]:
        """Return the incomplete messages, and the ends of the sessions."""
        items: list[Item] = []
        for key, session in self._sessions.items():
            items += [MessageItem(key, message) for message in session.finish()]
            items.append(SessionEnd(key))
        return items

    def _update(self, line: dict[str, Any], take: Any) -> list[Item]:
        key = self._key(line)
        known = self._sessions.get(key)
        session = known or _ClaudeSession()
        messages = take(session)
        self._sessions[key] = session
        self._link(line, key)
        opening: list[Item] = [] if known else [SessionStart(key, _text(line, "cwd"))]
        return [*opening, *[MessageItem(key, message) for message in messages]]

    def _key(self, line: dict[str, Any]) -> str:
        """Return the id of the session that *line* belongs to."""
        session = _text(line, "sessionId") or _text(line, "session_id") or self._name
        if agent := _text(line, "agentId") or _text(line, "parent_tool_use_id"):
            return f"{session}/{agent}"
        if line.get("isSidechain") is not True:
            return session
        parent = _text(line, "parentUuid")
        chain = self._chains.get(parent, self._started) if parent else self._started + 1
        return f"{session}/sidechain-{max(chain, 1)}"

    def _link(self, line: dict[str, Any], key: str) -> None:
        """Remember the last line of a side chain, and no other: there may be many lines."""
        if "/sidechain-" not in key or _text(line, "agentId"):
            return
        chain = int(key.rpartition("-")[2])
        self._started = max(self._started, chain)
        self._chains = {uuid: number for uuid, number in self._chains.items() if number != chain}
        self._chains[_text(line, "uuid")] = chain
        while len(self._chains) > _MAX_CHAINS:
            del self._chains[next(iter(self._chains))]


class _ClaudeSession:
    """One session: the answer in progress, and the calls without results."""

    def __init__(self) -> None:
        self._names = ToolNames()
        self._answer: list[AnswerItem] | None = None
        self._facts: dict[str, Any] = {}
        self._message_id = ""

    def add_user(self, content: Any, message_id: str) -> list[Message]:
        """Return the answer before a user line, and the messages of the line."""
        names = self._names
        before = [] if self._answer is None else [self._message(self._answer)]
        for message in before:
            names.add(message)
        messages = user_messages(content, message_id, names, "$.message.content")
        self._answer = None
        for message in messages:
            names.add(message)
        return [*before, *messages]

    def add_answer(
        self, answer: list[AnswerItem], facts: dict[str, Any], message_id: str
    ) -> list[Message]:
        """Add a line of an answer; return the previous answer if this line completes it."""
        # Validated now, so that an invalid line is refused itself, not the next one.
        answer_message(answer, message_id, facts)
        current, has_room = self._answer, len(self._answer or ()) < _MAX_BLOCKS
        is_same = bool(facts.get("id")) and facts["id"] == self._facts.get("id")
        if current is not None and is_same and has_room:
            current += answer
            self._facts = facts
            return []
        finished = self.finish()
        self._answer, self._facts, self._message_id = answer, facts, message_id
        return finished

    def finish(self) -> list[Message]:
        """Return the answer in progress, if there is one."""
        if self._answer is None:
            return []
        message = self._message(self._answer)
        self._names.add(message)
        self._answer = None
        return [message]

    def _message(self, answer: list[AnswerItem]) -> Message:
        return answer_message(answer, self._message_id, self._facts)


def _id_of(line: dict[str, Any], number: int) -> str:
    return _text(line, "uuid") or f"line-{number}"


def _text(line: dict[str, Any], field: str) -> str:
    value = line.get(field)
    return value if isinstance(value, str) else ""
