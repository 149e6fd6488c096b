"""Hooks of coding agents in a project with a file that has a secret: events as they are sent."""

import json
import re

from recorded_events import recorded
from toolbus.hosts.run.event_answer import answer
from toolbus.hosts.run.requests import HookSettings

PLANTED = re.compile("SWORDFISH-1|the-planted-word")
PLACEHOLDER = re.compile(r"\[[a-z-]+-[a-z][a-z2-7]{15}\]")

# By host: the events before and after a call, of which one was recorded with a text, and the tools
# that write a file and edit it.
EVENTS = {
    "claude-code": ("PreToolUse", "PostToolUse", "PostToolUse-Read", "Write", "Edit"),
    "pi": ("tool_call", "tool_result", "tool_result", "write", "edit"),
    "vibe": ("pre_tool", "post_tool", "post_tool", "file_system.write_file",
             "file_system.search_replace"),
    "gemini-cli": ("BeforeTool", "AfterTool", "AfterTool", "write_file", "replace"),
    "copilot": ("preToolUse", "postToolUse", "postToolUse-view", "create", "edit"),
    "codex": ("PreToolUse", "PostToolUse", "PostToolUse-Bash", "write_file", "apply_patch"),
    "opencode": ("tool.execute.before", "tool.execute.after", "tool.execute.after", "write",
                 "edit"),
    "cursor": ("preToolUse", "postToolUse", "postToolUse-mcp", "Write", "Edit"),
}  # fmt: skip

SEES = """
from toolbus import AgentComponent, Ask, events, guard, on
from toolbus.messages import encode

class Sees(AgentComponent):
    @on(events.TOOL_CALL_BEFORE)
    def before(self, ctx):
        self.note(ctx.value)

    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx):
        self.note(ctx.value)
        return Ask("may it?") if ASKS and "rite" in ctx.value.name else None

    @on(events.TOOL_CALL_AFTER)
    def after(self, ctx):
        self.note(ctx.value.requested, ctx.value.executed)

    def note(self, *values):
        with open(SEEN, "ab") as file:
            file.write(b"".join(map(encode, values)))
"""


class FileHooks:
    """The hooks of *host* in *home*, in whose project the file `.env` has *text*."""

    def __init__(self, host, home, monkeypatch, text, uses=("redact-secrets",), *, asks=False):
        monkeypatch.setenv("HOME", str(home))
        self.host, self.home, self.calls = host, home, 0
        self.told_to = host
        self.before, self.after, self.record, self.write, self.edit = EVENTS[host]
        self.project, self.seen, self.store = home / "project", home / "seen", home / "hooks.db"
        self.project.mkdir()
        self.env = self.project / ".env"
        self.env.write_text(text)
        tables = [f'[[component]]\nuse = "{use}"\n' for use in (*uses, "./sees.py:Sees")]
        (home / "toolbus.toml").write_text("\n".join(tables))
        (home / "sees.py").write_text(f"ASKS, SEEN = {asks}, {str(self.seen)!r}\n{SEES}")

    def call(self, tool, arguments):
        """Return what the host is told before a call, as JSON; None if nothing."""
        self.calls += 1
        payload = recorded(self.host, EVENTS[self.host][0])
        return self._tell(self.before, payload, tool, arguments)

    def result(self, tool, arguments, text):
        """Return what the host is told of the result *text* of the last call."""
        data = json.dumps(recorded(self.host, self.record))
        payload = json.loads(PLANTED.sub(lambda _: json.dumps(text)[1:-1], data))
        return self._tell(self.after, payload, tool, arguments)

    def read(self):
        """Return the text of the file as the model reads it."""
        tool = "MCP:read" if self.host == "cursor" else "read"
        self.call(tool, {"path": ".env"})
        told = json.dumps(self.result(tool, {"path": ".env"}, text := self.env.read_text()))
        names = iter(dict.fromkeys(PLACEHOLDER.findall(told)))
        return re.sub(r"(?<==)\S{15,}", lambda _: next(names), text)

    def _tell(self, event, payload, tool, arguments):
        values = dict.fromkeys(("cwd", "folder"), str(self.project))
        values |= dict.fromkeys(("tool_name", "toolName", "tool"), tool)
        values |= dict.fromkeys(("tool_input", "toolArgs", "arguments"), arguments)
        values |= dict.fromkeys(("tool_use_id", "tool_call_id", "call_id"), f"c{self.calls}")
        values |= dict.fromkeys(("session_id", "sessionId", "conversation_id"), "s")
        payload |= {key: value for key, value in values.items() if key in payload}
        config = str(self.home / "toolbus.toml")
        settings = HookSettings(config=config, store=self.store, limit=60.0)
        made = answer(self.told_to, event, json.dumps(payload).encode(), settings)
        return json.loads(made.stdout) if made.stdout else None
