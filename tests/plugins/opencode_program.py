"""OpenCode, offline: what it would fetch when it starts is put where it looks for it."""

import platform

from tests.servers.fake_model import ModelCall

from node_packages import AGENTS, installed

WANTED = AGENTS / "opencode"


class OpenCode:
    """OpenCode; our hooks are a plugin in it."""

    name = "opencode"
    resumed = ("--continue",)
    fails_commands = False
    before, after, failed = "tool.execute.before", "tool.execute.after", "tool.execute.after"

    def prepare(self, folders, url):
        """Write the host's configuration; return the variables that it needs."""
        model = {"name": "fake", "tool_call": True, "limit": {"context": 100_000, "output": 4_000}}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{url}/v1", "apiKey": "unused"},
            "models": {"fake-model": model},
        }
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "model": "fake/fake-model",
            "provider": {"fake": provider},
            "permission": dict.fromkeys(["bash", "read", "external_directory"], "allow"),
            "mcp": {"notes": {"type": "local", "command": folders.server, "enabled": True}},
        }
        folders.write(".config/opencode/opencode.json", settings)
        for place in (".config/opencode", ".cache/opencode"):
            folders.write(f"{place}/package.json", (WANTED / "package.json").read_text("utf-8"))
            modules = folders.home / place / "node_modules"
            if not modules.exists():
                modules.symlink_to(installed(WANTED))
        return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def command(self, prompt):
        processor = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine())
        package = f"opencode-{platform.system().lower()}-{processor or platform.machine()}"
        return [str(installed(WANTED) / package / "bin/opencode"), "run", prompt]

    def shell(self, command):
        return ModelCall("bash", {"command": command, "description": "run it"})

    def read(self, path):
        return ModelCall("read", {"filePath": str(path)})

    def write(self, path, text):
        return ModelCall("write", {"filePath": str(path), "content": text})

    def edit(self, path, old, new):
        texts = {"oldString": old, "newString": new}
        return ModelCall("edit", {"filePath": str(path), **texts})

    def mcp(self, tool):
        return ModelCall(f"notes_{tool}", {})

    def add_hook(self, folders, event, command):
        """Give the call as JSON to *command*, beside what is there."""
        number = len(list(folders.home.glob(".config/opencode/plugins/*")))
        text = f"""
import {{ spawnSync }} from "node:child_process"
export const Observer{number} = async () => ({{
  "{event}": async (call, output) => {{
    const input = JSON.stringify({{ ...call, ...output }})
    spawnSync("/bin/sh", ["-c", {command!r}], {{ input }})
  }},
}})
"""
        folders.write(f".config/opencode/plugins/observer_{number}.js", text)
