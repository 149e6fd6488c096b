import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from toolbus.hosts.dialects.hook_events import HookAnswer
from toolbus.hosts.install import client_files as module
from toolbus.hosts.install.client_files import (
    client_files,
    interpreter,
    shell_line,
    write_files,
)
from toolbus.hosts.run.hook_client import read_settings
from toolbus.settings.usage_error import UsageError

BLOCKS = {
    "PreToolUse": HookAnswer(stdout=b'{"reason": "it\'s $(no) \xe2\x80\x94"}\n', exit_code=0),
    "Stop": HookAnswer(stderr=b"stopped\n", exit_code=2),
}


def settings(tmp_path, **changes):
    fields = {
        "python": sys.executable,
        "search_path": tuple(each for each in sys.path if each.startswith("/")),
        "version": "1",
        "variables": {"HOME": str(tmp_path)},
        "sockets": str(tmp_path / "sockets"),
        "store": str(tmp_path / "hooks.db"),
    }
    return module.ClientSettings(**{**fields, **changes})


def contents(folder):
    return {
        file.name: (file.read_bytes(), file.stat().st_mode)
        for file in folder.iterdir()
        if file.is_file()
    }


def write_client(folder, *arguments):
    return write_files(folder, client_files(*arguments))


def command_line(script, event, python=sys.executable):
    return shell_line(python, script, "a", event, BLOCKS[event])


def run(line):
    return subprocess.run(["/bin/sh", "-c", line], input=b"{}", capture_output=True, check=False)


def test_what_is_written_is_ours_alone(tmp_path):
    folder = tmp_path / "hooks"
    write_client(folder, settings(tmp_path), "a", BLOCKS)
    before = contents(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {mode & 0o777 for _, mode in before.values()} == {0o600}
    assert set(before) == {"hook.py", "hook_client.py", "settings", "a.blocks"}


def test_other_settings_have_another_digest(tmp_path):
    digests = set()
    for limit in (1.0, 2.0):
        write_client(tmp_path / "hooks", settings(tmp_path, limit=limit), "a", BLOCKS)
        digests.add(read_settings(str(tmp_path / "hooks" / "settings"))[b"digest"][0])
    assert len(digests) == 2


def test_a_link_is_replaced_and_not_followed(tmp_path):
    folder = tmp_path / "hooks"
    folder.mkdir()
    (tmp_path / "victim").write_text("kept")
    (folder / "settings").symlink_to(tmp_path / "victim")
    write_client(folder, settings(tmp_path), "a", BLOCKS)
    assert (tmp_path / "victim").read_text() == "kept"
    assert not (folder / "settings").is_symlink()


def test_a_value_of_two_lines_is_refused(tmp_path):
    with pytest.raises(UsageError, match="must be one line"):
        write_client(
            tmp_path / "hooks", settings(tmp_path, variables={"HOME": "/a\nx=y"}), "a", BLOCKS
        )


@pytest.mark.parametrize("event", BLOCKS)
@pytest.mark.parametrize("broken", ["no script", "empty script", "no interpreter", "false", "kill"])
def test_the_line_ends_in_the_block_whatever_ends_the_client(tmp_path, broken, event):
    folder, block = tmp_path / "a folder's", BLOCKS[event]
    python = tmp_path / "python"
    if broken == "false":
        python.write_text("#!/bin/sh\nexit 0\n")
    if broken == "kill":
        python.write_text("#!/bin/sh\nkill -9 $$\n")
    if python.exists():
        python.chmod(0o755)
    gone = broken not in {"no script", "empty script"}
    used = settings(tmp_path, python=str(python)) if gone else settings(tmp_path)
    script = write_client(folder, used, "a", BLOCKS)
    line = command_line(script, event, used.python)
    if broken == "no script":
        script.unlink()
    if broken == "empty script":
        script.write_text("")
    ended = run(line)
    assert (ended.returncode, ended.stdout) == (block.exit_code, block.stdout.rstrip())
    assert ended.stderr.endswith(block.stderr.rstrip())


def test_exit_codes_of_answers_come_through_the_line(tmp_path):
    script = write_client(tmp_path / "hooks", settings(tmp_path), "a", BLOCKS)
    line = command_line(script, "Stop")
    for code, stdout in ((0, b"{}"), (2, b"")):
        script.write_text(
            f"import sys\nprint({stdout.decode()!r}, end='')\nsys.exit(100 + {code})\n"
        )
        ended = run(line)
        assert (ended.returncode, ended.stdout, ended.stderr) == (code, stdout, b"")


def test_the_interpreter_is_that_of_the_environment():
    assert interpreter() == sys.executable


@pytest.mark.parametrize("name", ["shims/python3", "bin/python3", "bin/mise"])
def test_a_version_managers_python_is_refused(tmp_path, monkeypatch, name):
    python = tmp_path / name
    python.parent.mkdir()
    if name == "bin/python3":
        python.write_text("#!/bin/sh\n")
    else:
        python.symlink_to(os.path.realpath(sys.executable) if "shims" in name else "/bin/sh")
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(UsageError, match="is a version manager's shim"):
        interpreter()


def test_settings_of_this_process_find_this_toolbus(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("TOOLBUS_SECRET", "x")
    found = module.client_settings("toolbus.toml")
    assert found.python == sys.executable
    assert found.config == str(Path.cwd() / "toolbus.toml")
    assert found.sockets == str(tmp_path / ".local/state/toolbus/sockets")
    assert "TOOLBUS_SECRET" not in found.variables


def test_sockets_lie_in_the_systems_folder_where_it_is_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    tmp_path.chmod(0o755)
    assert "sockets" in module.client_settings().sockets
    tmp_path.chmod(0o700)
    assert module.client_settings().sockets == str(tmp_path / "toolbus")


def test_a_line_has_no_word_that_its_shell_would_change(tmp_path):
    script = write_client(tmp_path / "a $HOME `x` 'y'", settings(tmp_path), "a", BLOCKS)
    words = shlex.split(command_line(script, "Stop").partition(";")[0])
    assert words[1:] == ["-I", "-S", str(script), "a", "Stop", "100"]
