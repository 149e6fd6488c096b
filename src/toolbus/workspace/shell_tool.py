"""A shell tool, which runs commands in a folder.

```python
from toolbus import Agent
from toolbus.workspace.shell_tool import ShellTool

agent = Agent(model, components=[ShellTool(root="project", seconds=60)], approver=ask_me)
```

`sh` runs a command, without input. Its descendants are killed when the command ends, when its time
is up and when the call is cancelled. Its output, with errors, is kept up to *output_bytes*: head
and tail. A nonzero exit status is reported, and is not an error.

A command has no terminal, so it cannot type into the user's, and its processes are recognizable as
a model's (`toolbus.presence.person`): they run below a parent process (`process_keeper`), which on
Linux adopts orphans.

**Limits.** It is not a sandbox: a command can do everything that the program's user may do,
anywhere: kill its parent process, or have another program start one (`systemd-run --user`, `at`, a
running `tmux`). Outside of Linux, processes that leave its process group (`setsid`) are not ended.
Environment variables that look like keys are not passed on (`env`), but the user's files are
readable.
"""

from __future__ import annotations

import os
from collections.abc import Sequence  # noqa: TC003 - a file's settings are of these types
from fnmatch import fnmatchcase
from pathlib import Path  # noqa: TC003 - as above

from toolbus.components.components import AgentComponent
from toolbus.errors import RegistrationError
from toolbus.messages.records import ToolResponse
from toolbus.presence.agents import JUDGED
from toolbus.tools import tool
from toolbus.workspace.processes import run_process
from toolbus.workspace.working_folder import WorkingFolder

SECRET_VARIABLES = ("*_KEY", "*_TOKEN", "*_SECRET", "*_PASSWORD", "*_PASS", "*_CREDENTIALS")
"""The patterns of environment variables that a command does not get, unless they are named."""

_LONGEST_SECONDS = 3_600.0


class ShellTool(AgentComponent):
    """A tool that runs shell commands; see `toolbus.workspace.shell_tool`.

    Args:
        root: the folder in which commands run.
        seconds: the time limit of a command, unless the model asks for less or, up to an hour, for
            more.
        output_bytes: the most bytes of a command's output to keep.
        env: names of environment variables to pass on although they look like keys.
        enabled: as for every component.
    """

    def __init__(
        self,
        *,
        root: str | Path = ".",
        seconds: float = 120.0,
        output_bytes: int = 30_000,
        env: Sequence[str] = (),
        enabled: bool | None = None,
    ) -> None:
        super().__init__(enabled=enabled)
        for name, limit in (("seconds", seconds), ("output_bytes", output_bytes)):
            if limit <= 0:
                raise RegistrationError("ShellTool", f"{name} must be above 0, not {limit!r}")
        self._folder = WorkingFolder(root)
        self.tools_folder = str(self._folder.root)
        self._seconds, self._bytes, self._env = seconds, output_bytes, frozenset(env)

    @tool(annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True})
    async def shell(self, command: str, seconds: float | None = None) -> ToolResponse:
        """Run a command with sh, without input; after *seconds* it and its background jobs end."""
        limit = min(seconds, _LONGEST_SECONDS) if seconds and seconds > 0 else self._seconds
        result = await run_process(
            ["sh", "-c", command],
            folder=self._folder.root,
            seconds=limit,
            limit=self._bytes,
            env=self._environment(),
        )
        status = result.exit_status
        if status is None:
            text = f"{result.output}\n[killed: it took longer than {limit:g} seconds]"
            return ToolResponse.from_text(text.lstrip("\n"), is_error=True, error_type="timeout")
        mark = f"\n[exit status {status}]" if status else ""
        output = (result.output.rstrip("\n") + mark).lstrip("\n")
        return ToolResponse(output, metadata={"exit_status": status})

    def _environment(self) -> dict[str, str]:
        variables = {
            name: value
            for name, value in os.environ.items()
            if name in self._env
            or not any(fnmatchcase(name.upper(), pattern) for pattern in SECRET_VARIABLES)
        }
        return variables | {JUDGED: "1"}
