"""The coding agents that we did not write, each as it is run offline: a clean home, a fake model.

References: the makers' documentation of headless runs, and runs of the versions in
`tests/hosts/package.json`. Each has its events *before* and *after* a call, and of one that
*failed*; *fails_commands*, whether a command that ends with an error has failed; and what calls its
tools, None where there is none; and the options by which it goes on with its last session.
"""

import json
import os
import tomllib

from tests.servers.fake_model import ModelCall

from node_packages import AGENTS, NODE, installed, program
from opencode_program import OpenCode
from vibe_program import Vibe, recent_python


class GeminiCli:
    """Gemini CLI; its times are milliseconds."""

    name = "gemini-cli"
    resumed = ("--resume", "latest")
    fails_commands = False
    before, after, failed = "BeforeTool", "AfterTool", "AfterTool"

    def prepare(self, folders, url):
        """Write the host's configuration; return the variables that it needs."""
        settings = {
            "security": {
                "auth": {"selectedType": "gemini-api-key"},
                "folderTrust": {"enabled": False},
            },
            "telemetry": {"enabled": False},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False},
        }
        command, *arguments = folders.server
        notes = {"command": command, "args": arguments, "trust": True}
        folders.merge(".gemini/settings.json", settings | {"mcpServers": {"notes": notes}})
        return {
            "GEMINI_API_KEY": "unused",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_NO_RELAUNCH": "true",
        }

    def command(self, prompt):
        options = ["-m", "gemini-2.5-flash", "--approval-mode", "yolo", "-p", prompt]
        return [*program("gemini", AGENTS), *options]

    def shell(self, command):
        return ModelCall("run_shell_command", {"command": command})

    def read(self, path):
        return ModelCall("read_file", {"file_path": str(path)})

    def write(self, path, text):
        return ModelCall("write_file", {"file_path": str(path), "content": text})

    def edit(self, path, old, new):
        texts = {"old_string": old, "new_string": new, "instruction": "change it"}
        return ModelCall("replace", {"file_path": str(path), **texts})

    def mcp(self, tool):
        return ModelCall(f"mcp_notes_{tool}", {})

    def add_hook(self, folders, event, command):
        """Run *command* at *event*, beside what is there."""
        hook = {"type": "command", "command": command, "timeout": 20000}
        entry = {"matcher": ".*", "hooks": [hook]}
        folders.merge(".gemini/settings.json", {"hooks": {event: [entry]}})


class ClaudeCode:
    """Claude Code."""

    name = "claude-code"
    resumed = ("--continue",)
    fails_commands = True
    before, after, failed = "PreToolUse", "PostToolUse", "PostToolUseFailure"
    asks = False

    def prepare(self, folders, url):
        command, *arguments = folders.server
        folders.write(
            "mcp.json", {"mcpServers": {"notes": {"command": command, "args": arguments}}}
        )
        self.servers = folders.home / "mcp.json"
        return {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "unused",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "IS_SANDBOX": "1",
        }

    def command(self, prompt):
        wrapper = installed(AGENTS) / "@anthropic-ai/claude-code/cli-wrapper.cjs"
        mode = "default" if self.asks else "bypassPermissions"
        options = ["--model", "claude-sonnet-4-5", "--permission-mode", mode]
        servers = ["--mcp-config", str(self.servers), "--strict-mcp-config"]
        return [NODE, str(wrapper), *options, *servers, "-p", prompt]

    def shell(self, command):
        return ModelCall("Bash", {"command": command})

    def read(self, path):
        return ModelCall("Read", {"file_path": str(path)})

    def write(self, path, text):
        return ModelCall("Write", {"file_path": str(path), "content": text})

    # What it would replace, it looks for before any hook.
    edit = None

    def mcp(self, tool):
        return ModelCall(f"mcp__notes__{tool}", {})

    def add_hook(self, folders, event, command):
        hook = {"type": "command", "command": command, "timeout": 20}
        entry = {"matcher": "*", "hooks": [hook]}
        folders.merge(".claude/settings.json", {"hooks": {event: [entry]}})


class Codex:
    """Codex; the shell is its only way to a file."""

    name = "codex"
    resumed = None
    fails_commands = False
    before, after, failed = "PreToolUse", "PostToolUse", "PostToolUse"
    read = None
    # Ours come with the trust that an installation stores; those of `add_hook` have none.
    trusts_others = False

    def prepare(self, folders, url):
        command, *arguments = folders.server
        text = f"""
model = "fake-model"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[mcp_servers.notes]
command = {json.dumps(command)}
args = {json.dumps(arguments)}
default_tools_approval_mode = "approve"
"""
        tomllib.loads(text)
        folders.write(".codex/config.toml", text)
        return {"FAKE_KEY": "unused"}

    def command(self, prompt):
        options = ["--skip-git-repo-check"]
        options += ["--dangerously-bypass-hook-trust"] if self.trusts_others else []
        return [*program("codex", AGENTS), "exec", *options, prompt]

    def shell(self, command):
        return ModelCall("exec_command", {"cmd": command})

    def write(self, path, text):
        return self.shell(f"cat > {path} <<'E'\n{text}E")

    edit = None

    def mcp(self, tool):
        return ModelCall(f"mcp__notes.{tool}", {})

    def add_hook(self, folders, event, command):
        hook = {"type": "command", "command": command, "timeout": 20}
        entry = {"matcher": ".*", "hooks": [hook]}
        self.trusts_others = True
        folders.merge(".codex/hooks.json", {"hooks": {event: [entry]}})


class CopilotCli:
    """Copilot CLI, with a provider of the user's own and no account."""

    name = "copilot"
    resumed = ("--continue",)
    fails_commands = False
    before, after, failed = "preToolUse", "postToolUse", "postToolUseFailure"
    asks = False

    def prepare(self, folders, url):
        command, *arguments = folders.server
        notes = {"type": "local", "command": command, "args": arguments, "tools": ["*"]}
        folders.write(".copilot/mcp-config.json", {"mcpServers": {"notes": notes}})
        folders.merge(".copilot/settings.json", {"trustedFolders": [str(folders.project)]})
        return {
            "COPILOT_OFFLINE": "1",
            "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "unused",
            "COPILOT_MODEL": "fake-model",
        }

    def command(self, prompt):
        options = [] if self.asks else ["--allow-all-tools", "--allow-all-paths"]
        return [*program("copilot", AGENTS), *options, "-p", prompt]

    def shell(self, command):
        return ModelCall("bash", {"command": command, "description": "run it"})

    def read(self, path):
        return ModelCall("view", {"path": str(path)})

    def write(self, path, text):
        return ModelCall("create", {"path": str(path), "file_text": text})

    def edit(self, path, old, new):
        return ModelCall("edit", {"path": str(path), "old_str": old, "new_str": new})

    def mcp(self, tool):
        return ModelCall(f"notes-{tool}", {})

    def add_hook(self, folders, event, command):
        entry = {"type": "command", "bash": command, "timeoutSec": 20}
        folders.merge(".copilot/settings.json", {"hooks": {event: [entry]}})


class Pi:
    """pi; it has no servers of MCP."""

    name = "pi"
    resumed = ("--continue",)
    fails_commands = True
    before, after, failed = "tool_call", "tool_result", "tool_result"
    mcp = None

    def prepare(self, folders, url):
        models = {
            "baseUrl": f"{url}/v1",
            "api": "openai-completions",
            "apiKey": "unused",
            "models": [{"id": "fake-model"}],
        }
        folders.write(".pi/agent/models.json", {"providers": {"fake": models}})
        return {"PI_OFFLINE": "1"}

    def command(self, prompt):
        options = ["--provider", "fake", "--model", "fake-model", "-p", prompt]
        return [*program("pi", AGENTS), *options]

    def shell(self, command):
        return ModelCall("bash", {"command": command})

    def read(self, path):
        return ModelCall("read", {"path": str(path)})

    def write(self, path, text):
        return ModelCall("write", {"path": str(path), "content": text})

    def edit(self, path, old, new):
        return ModelCall("edit", {"path": str(path), "edits": [{"oldText": old, "newText": new}]})

    def add_hook(self, folders, event, command):
        """Give the event as JSON to *command*, and let the answer be."""
        number = len(list(folders.home.glob(".pi/agent/extensions/*")))
        text = f"""
import {{ spawnSync }} from "node:child_process"
export default function (pi: any) {{
  pi.on("{event}", async (event: any) => {{
    spawnSync("/bin/sh", ["-c", {json.dumps(command)}], {{ input: JSON.stringify(event) }})
  }})
}}
"""
        folders.write(f".pi/agent/extensions/observer_{number}.ts", text)


PROGRAMS = {one.name: one for one in (GeminiCli(), Pi(), ClaudeCode(), Codex(), CopilotCli())}
if recent_python():
    PROGRAMS["vibe"] = Vibe()
if os.environ.get("TOOLBUS_TESTS") == "long":
    PROGRAMS["opencode"] = OpenCode()
