"""Tools that read, write, edit, list and search the files of a folder.

```python
from toolbus import Agent
from toolbus.workspace.file_tools import FileTools

agent = Agent(model, components=[FileTools(root="project")], approver=ask_me)
```

A path outside of the folder, through `..`, a symlink or an absolute path, requires approval in any
case, and the call is denied if there is no approver. Tools that only read have the annotation
`readOnlyHint`, so that a policy can distinguish them.

**Limits.** Files are UTF-8 text of at most 10 MB. A path is resolved when its call is judged:
another user or process, such as a shell, can create a symlink there before the call runs. The
program `grep` does the searching. A previewed change is written exactly or not at all: a call is
refused if its file has changed since (`expect`); between this check and the write, other processes
can still change the file.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from toolbus.components.components import AgentComponent
from toolbus.components.marks import guard
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Ask
from toolbus.settings.files import read_own_text
from toolbus.tools import Tool, ToolContext, tool
from toolbus.workspace.file_changes import FileChange
from toolbus.workspace.processes import run_process
from toolbus.workspace.text_files import page, read_text, replaced, write_text
from toolbus.workspace.working_folder import FileToolError, WorkingFolder

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.messages.records import ToolCall

_NAMES = ("read_file", "write_file", "edit_file", "list_files", "search_files")
_READS = {"readOnlyHint": True}
_CHANGES = {"readOnlyHint": False, "destructiveHint": True}

_SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"})
"""Folders that are listed and searched only if the path names them."""

_MOST_FILLED = 100
"""The most calls with restored values for which the hash of the file's text is kept."""

_MOST_PATHS, _SEARCH_BYTES, _SEARCH_SECONDS = 1_000, 30_000, 30.0


class FileTools(AgentComponent):
    """Tools for the files of a folder; see `toolbus.workspace.file_tools`.

    Args:
        root: the base of relative paths; calls with paths outside of it require approval.
        enabled: as for every component.
    """

    def __init__(self, *, root: str | Path = ".", enabled: bool | None = None) -> None:
        super().__init__(enabled=enabled)
        self._folder = WorkingFolder(root)
        self.tools_folder = str(self._folder.root)
        self._expected: dict[str, FileChange] = {}
        self._filled_from: OrderedDict[str, int] = OrderedDict()
        # Calls of one answer run concurrently, and two of them may edit the same file.
        self._lock = Lock()

    @guard(TOOL_CALL_BEFORE, tools=_NAMES, on_error="closed")
    def ask_outside(self, ctx: EventContext[ToolCall]) -> Ask | None:
        """Require approval for a call whose path is outside of the folder."""
        path = ctx.value.arguments.get("path", ".")
        if isinstance(path, str) and self._folder.is_inside(path):
            return None
        return Ask(f"{ctx.value.name} uses a path outside of {self._folder.root}: {path!r}")

    @tool(annotations=_READS)
    def read_file(self, path: str, offset: int = 1, limit: int = 2_000) -> str:
        """Read a text file: up to *limit* lines, beginning at line *offset*, counted from 1."""
        if offset < 1 or limit < 1:
            raise FileToolError("offset and limit must be at least 1")
        return page(read_text(self._folder.path(path)), offset, limit)

    @tool(annotations=_CHANGES)
    def write_file(self, path: str, content: str, context: ToolContext) -> str:
        """Create a text file, or replace a whole existing one. Use edit_file to change a part."""
        with self._lock:
            return self._write(self._written(path, content), context)

    @tool(annotations=_CHANGES)
    def edit_file(
        self,
        path: str,
        old_text: str,
        new_text: str,
        context: ToolContext,
        replace_all: bool = False,  # noqa: FBT001, FBT002 - a model gives it by name
    ) -> str:
        """Replace *old_text*, which must occur exactly once in the file, by *new_text*."""
        with self._lock:
            change = self._edited(path, old_text, new_text, replace_all=replace_all)
            return self._write(change, context)

    def text_before(self, call: ToolCall, offered: Tool | None) -> str | None:
        """Return the current text of the file that *call* of the tool *offered* would change.

        It is None for any other tool, and "" for a path outside of the folder, a path through a
        symlink, and a file without text.
        """
        if not self._changes(call, offered):
            return None
        root = self._folder.root
        with suppress(RuntimeError):  # The home folder of an unknown user.
            path = Path(str(call.arguments.get("path"))).expanduser()
            if text := read_own_text(str(path), str(root), root):
                self._filled_from[call.id] = hash(text)
            if len(self._filled_from) > _MOST_FILLED:
                self._filled_from.popitem(last=False)
            return text
        return ""

    def _changes(self, call: ToolCall, offered: Tool | None) -> bool:
        is_ours = getattr(getattr(offered, "run", None), "__self__", None) is self
        return is_ours and call.name in {"write_file", "edit_file"}

    def preview(self, call: ToolCall, offered: Tool | None) -> FileChange | None:
        """Return the change that *call* of the tool *offered* would make; None for other tools.

        Nothing is written. Raises `FileToolError` if the change cannot be computed.
        """
        if offered is None or not self._changes(call, offered):
            return None
        values, problem = offered.fit(call.arguments)
        if problem is not None:
            raise FileToolError(problem)
        return (self._written if call.name == "write_file" else self._edited)(**values)

    def expect(self, call_id: str, change: FileChange) -> None:
        """Refuse the call *call_id* unless its file still has the content before *change*."""
        self._expected[call_id] = change

    @tool(annotations=_READS)
    def list_files(self, path: str = ".", pattern: str = "*") -> str:
        """List the files below a folder whose path or name matches the glob *pattern*."""
        folder = self._folder.path(path)
        if not folder.is_dir():
            raise FileToolError(f"there is no folder {path!r}")
        paths: list[str] = []
        for parent, folders, names in os.walk(folder):
            folders[:] = sorted(set(folders) - _SKIPPED)
            below = os.path.relpath(parent, folder)
            for name in sorted(names):
                shown = str(Path(below, name))
                if fnmatch(shown, pattern) or fnmatch(name, pattern):
                    paths.append(shown)
                    if len(paths) > _MOST_PATHS:
                        mark = f"[more than {_MOST_PATHS:,} files; name a folder or a pattern]"
                        return "\n".join([*paths[:-1], mark])
        return "\n".join(paths) or f"no file matches {pattern!r}"

    @tool(annotations=_READS)
    async def search_files(self, pattern: str, path: str = ".", files: str = "*") -> str:
        """Search lines that match an extended regular expression; *files* is a glob of names."""
        target = self._folder.path(path)
        skipped = [f"--exclude-dir={name}" for name in sorted(_SKIPPED)]
        command = ["grep", "-rInsE", f"--include={files}", *skipped, "-e", pattern, "--"]
        result = await run_process(
            [*command, self._folder.shown(target)],
            folder=self._folder.root,
            seconds=_SEARCH_SECONDS,
            limit=_SEARCH_BYTES,
        )
        if result.exit_status is None:
            raise FileToolError(f"the search took longer than {_SEARCH_SECONDS:g} seconds")
        if result.exit_status == 1:
            return f"no line matches {pattern!r}"
        if result.exit_status > 1 and result.output.startswith("grep:"):
            raise FileToolError(result.output.strip())
        return result.output.removeprefix("./").replace("\n./", "\n").rstrip("\n")

    def _written(self, path: str, content: str) -> FileChange:
        target = self._folder.path(path)
        before = read_text(target) if target.exists() else None
        return FileChange(target, self._folder.shown(target), before, content)

    def _edited(
        self, path: str, old_text: str, new_text: str, *, replace_all: bool = False
    ) -> FileChange:
        target = self._folder.path(path)
        before = read_text(target)
        after = replaced(before, old_text, new_text, everywhere=replace_all)
        return FileChange(target, self._folder.shown(target), before, after)

    def _write(self, change: FileChange, context: ToolContext) -> str:
        """Write *change* unless a person approved a different one; return its description."""
        now = hash(change.before)
        if change.before is not None and self._filled_from.pop(context.call_id, now) != now:
            reason = f"{change.shown} has changed since its values were restored in this call"
            raise FileToolError(f"{reason}; nothing was written, read it again")
        expected = self._expected.pop(context.call_id, change)
        if (expected.target, expected.before) != (change.target, change.before):
            reason = f"{change.shown} has changed since a person was asked about this call"
            raise FileToolError(f"{reason}; nothing was written, read it again")
        write_text(change.target, change.after)
        return change.describe()
