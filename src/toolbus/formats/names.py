"""What a result of other formats does not say: the name of the tool that it comes from."""

from __future__ import annotations

from toolbus.messages.records import AssistantMessage, Message, ToolMessage


class Names:
    """The names of the tools of calls that have no result yet, the latest *most* of them."""

    def __init__(self, most: int = 10_000) -> None:
        self._names: dict[str, str] = {}
        self._most = most

    def add(self, message: Message) -> None:
        """Remember the calls of *message*, and forget the one that it answers."""
        match message:
            case AssistantMessage(tool_calls=calls):
                self._names.update({call.id: call.name for call in calls})
            case ToolMessage(tool_call_id=call_id):
                self._names.pop(call_id, None)
        while len(self._names) > self._most:
            del self._names[next(iter(self._names))]

    def of(self, call_id: str) -> str:
        """Return the name of the tool of the call *call_id*, "" if nobody made it."""
        return self._names.get(call_id, "")
