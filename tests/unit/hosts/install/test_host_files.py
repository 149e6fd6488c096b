"""What stands in a host's settings for our command, where a project could turn it off."""

from toolbus.hosts.install.host_files import hook_entry, is_ours

LINE = "/usr/bin/python -I -S /home/ada/.local/state/toolbus/hooks/abc/hook.py {} Event 100; exit 2"


def test_prefix_of_a_project_stands_before_no_line_of_claude_code():
    line = LINE.format("claude-code")
    entry = hook_entry("claude-code", "PreToolUse", line)

    assert [(hook["command"], hook["args"]) for hook in entry["hooks"]] == [
        ("/bin/sh", ["-c", line])
    ]
    assert is_ours(entry, "claude-code")
    assert not is_ours(entry, "codex")


def test_name_of_a_vibe_hook_depends_on_its_paths():
    line = LINE.format("vibe")
    name = hook_entry("vibe", "pre_tool", line)["name"]
    elsewhere = hook_entry("vibe", "pre_tool", line.replace("ada", "bob"))["name"]

    assert name.startswith("toolbus-pre_tool-")
    assert name != elsewhere
    assert name == hook_entry("vibe", "pre_tool", line)["name"]
