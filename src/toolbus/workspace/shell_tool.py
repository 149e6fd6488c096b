"""A shell: a tool that runs commands in a folder.

```python
from toolbus import Agent
from toolbus.workspace.shell_tool import ShellTool

agent = Agent(model, components=[ShellTool(root="project", seconds=60)], approver=ask_me)
```

A command is run by `sh`, without input. All that it started is killed when the command ends, when
its time is up and when the call is cancelled. What it says, errors included, is kept up to
*output_bytes*: head and tail. An exit status other than 0 is told and is no error.

It has no terminal, so it cannot type into that of the person, and what it runs is known as a
model's (`toolbus.presence.person`): it runs below a process of its own (`process_keeper`), which on
Linux adopts what a command leaves behind.

**Limits.** It is no sandbox: a command can do all that the program's user may do, anywhere: kill
the process above it, or have another program start one (`systemd-run --user`, `at`, a running
`tmux`). Outside of Linux what leaves its process group (`setsid`) is not ended. Variables of the
environment that look like keys are not handed on (`env`), but files of that user are readable.
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
"""Patterns of variables that a command does not get, unless they are named."""

_LONGEST_SECONDS = 3_600.0


class ShellTool(AgentComponent):
    """A tool that runs commands of a shell; see `toolbus.workspace.shell_tool`.

    Args:
        root: the folder in which commands run.
        seconds: for a command, unless the model asks for less or, up to an hour, for more.
        output_bytes: what is kept of the output of a command.
        env: names of variables that commands get although they look like keys.
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
        """Run a command with sh; it has no input and ends after *seconds*, background and all."""
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
