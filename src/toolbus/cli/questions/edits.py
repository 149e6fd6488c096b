"""What a call of the file tools makes of its file, for the question about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.workspace.file_tools import FileTools
from toolbus.workspace.working_folder import FileToolError

if TYPE_CHECKING:
    from toolbus.agent.agent import Agent
    from toolbus.messages.records import ToolCall
    from toolbus.workspace.file_changes import FileChange


class FileEdit(NamedTuple):
    """A *change* that the call *call_id* of *files* would make; None if a *problem* hides it.

    *summary* and *difference* are made at once: they take a while for large files.
    """

    files: FileTools
    call_id: str
    change: FileChange | None
    summary: str
    difference: str = ""
    problem: str = ""

    def confirm(self) -> None:
        """Have the call refused if its file is another one when it runs."""
        if self.change is not None:
            self.files.expect(self.call_id, self.change)


def find_edit(agent: Agent, call: ToolCall) -> FileEdit | None:
    """Return what *call* of *agent* makes of a file, None if it is no call of its file tools."""
    offered = agent.tools.get(call.name)
    for files in agent.components:
        if not isinstance(files, FileTools):
            continue
        try:
            change = files.preview(call, offered)
        except FileToolError as error:
            return FileEdit(files, call.id, None, "unknown", problem=str(error))
        if change is not None:
            return FileEdit(files, call.id, change, change.summary, change.difference)
    return None
