"""The scenarios of `specs/workspace.md`."""

import asyncio
import os
import re
import threading
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from toolbus import EventBus, ToolCall, ToolRunner
from toolbus.workspace import file_tools
from toolbus.workspace.file_tools import FileTools
from toolbus.workspace.shell_tool import ShellTool
from toolbus.workspace.text_files import read_text


@asynccontextmanager
async def working(component, approver=None):
    """Give what calls a tool of *component*, as an agent would, and returns its text and error."""
    bus = EventBus()
    async with component.installed(bus):
        runner = ToolRunner(bus, component.host.tools, approver=approver)

        async def call(name, **arguments):
            response = (await runner.call(name, arguments)).response
            return response.text, response.error_type

        yield call


def is_alive(pid):
    """Tell whether the process *pid* is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(pid):
    """Wait until the process *pid* is not there any more."""
    async with asyncio.timeout(60):
        while is_alive(pid):
            await asyncio.sleep(0.01)


async def test_a_file_is_read_in_pages(tmp_path):
    lines = [f"line {n}" for n in range(1, 5001)]
    lines[2_999] = "x" * 100_000
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n")

    async with working(FileTools(root=tmp_path)) as call:
        read, offset = [], 1
        while offset:
            text, error = await call("read_file", path="a.txt", offset=offset)
            assert error is None
            *page, mark = text.splitlines()
            read += page
            onward = re.search(r"continue with offset=(\d+)", mark)
            offset = int(onward[1]) if onward else 0

    assert len(read) == 5_000
    assert read[2_999] == "x" * 2_000 + "[… 98,000 characters of this line …]"
    assert [*read[:2_999], *read[3_000:]] == [*lines[:2_999], *lines[3_000:]]


async def test_unreadable_paths_are_named(tmp_path):
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    wrong = {
        "picture": "'picture' is not UTF-8 text",
        "folder": "'folder' is a folder; use list_files to list it",
        "pipe": "'pipe' is not a regular file but a device, socket or pipe",
        "missing": "'missing': no such file or directory",
        "loop": "outside of|cannot be resolved|too many levels",
        "a\0b": "outside of|null byte",
    }

    async with working(FileTools(root=tmp_path), approver=lambda *_: True) as call:
        for path, reason in wrong.items():
            text, error = await call("read_file", path=path)
            assert error is not None
            assert re.search(reason, text), text
            assert "\n" not in text


async def test_files_are_listed_and_searched(tmp_path):
    (tmp_path / "src/deep").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    for path in ("src/b.py", "src/deep/a.py", "notes.md", ".git/c.py"):
        (tmp_path / path).write_text("def f():\n    return -1\n")
    (tmp_path / "src/circle").symlink_to(tmp_path)

    async with working(FileTools(root=tmp_path)) as call:
        assert (await call("list_files", pattern="*.py"))[0] == "src/b.py\nsrc/deep/a.py"
        assert (await call("list_files", path="src", pattern="deep/*"))[0] == "deep/a.py"
        assert (await call("list_files", pattern="*.rs"))[0] == "no file matches '*.rs'"
        found, _ = await call("search_files", pattern="-1$", files="*.py")
        assert sorted(found.splitlines()) == [
            "src/b.py:2:    return -1",
            "src/deep/a.py:2:    return -1",
        ]
        assert (await call("search_files", pattern="^class"))[0] == "no line matches '^class'"
        assert (await call("search_files", pattern="f(", path="notes.md"))[1] is not None


async def test_an_edit_shows_its_difference(tmp_path):
    path = tmp_path / "a.bat"
    path.write_bytes(b"one\r\ntwo\r\nthree\r\nfour\r\n")
    path.chmod(0o754)

    async with working(FileTools(root=tmp_path)) as call:
        text, error = await call(
            "edit_file", path="a.bat", old_text="two\nthree", new_text="2\n3\n3b"
        )

    assert error is None
    assert path.read_bytes() == b"one\r\n2\r\n3\r\n3b\r\nfour\r\n"
    assert path.stat().st_mode & 0o777 == 0o754
    assert text.splitlines()[0] == "a.bat was written: 3 lines added, 2 removed"
    assert {"-two", "-three", "+2", "+3", "+3b"} <= {*text.splitlines()}


EDIT = {"path": "a.txt", "old_text": "one", "new_text": "1"}
WRITE = {"path": "a.txt", "content": "all\n"}


def move_behind_a_link(path):
    path.rename(path.with_name("b.txt"))
    path.symlink_to("b.txt")


async def test_a_previewed_change_is_written(tmp_path):
    path = tmp_path / "a.txt"
    files = FileTools(root=tmp_path)
    cases = [
        ("edit_file", EDIT, "one\ntwo\n", None, "1\ntwo\n"),
        ("write_file", WRITE, "one\ntwo\n", None, "all\n"),
        ("write_file", WRITE, None, None, "all\n"),
        ("edit_file", EDIT, "one\ntwo\n", lambda: path.write_text("one\n2\n"), "one\n2\n"),
        ("write_file", WRITE, "one\n", path.unlink, None),
        ("write_file", WRITE, None, lambda: path.write_text(""), ""),
        ("edit_file", EDIT, "one\n", lambda: move_behind_a_link(path), "one\n"),
    ]
    bus = EventBus()
    async with files.installed(bus):
        runner = ToolRunner(bus, files.host.tools)
        for name, arguments, before, change, after in cases:
            path.unlink(missing_ok=True)
            if before is not None:
                path.write_text(before)
            call = ToolCall(id="c1", name=name, arguments=arguments)
            expected = files.preview(call, files.host.tools.get(name))
            files.expect("c1", expected)
            if change is not None:
                change()
            (outcome,) = await runner.call_all((call,))
            assert (path.read_text() if path.exists() else None) == after
            assert outcome.response.is_error == (change is not None)
            if change is None:
                assert expected.after == after
            else:
                assert "has changed since a person was asked" in outcome.response.text

    other = FileTools(root=tmp_path)
    assert other.preview(ToolCall(name="edit_file", arguments=EDIT), files.edit_file) is None


async def test_concurrent_edits_are_all_made(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    both = threading.Barrier(2)

    def read_together(target):
        text = read_text(target)
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=0.1)  # It breaks, unless both are here.
        return text

    monkeypatch.setattr(file_tools, "read_text", read_together)
    async with working(FileTools(root=tmp_path)) as call:
        await asyncio.gather(
            call("edit_file", path="a.txt", old_text="one", new_text="1"),
            call("edit_file", path="a.txt", old_text="two", new_text="2"),
        )

    assert path.read_text() == "1\n2\n"


async def test_an_ambiguous_edit_changes_nothing(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("same\nother\nsame\n")
    wrong = {
        "same": "occurs 2 times in the file; include more lines",
        "none": "is not in the file; read the file again",
        "": "old_text is empty",
        "other": "are the same",
    }

    async with working(FileTools(root=tmp_path)) as call:
        for old, reason in wrong.items():
            text, error = await call("edit_file", path="a.txt", old_text=old, new_text="other")
            assert error is not None
            assert reason in text
        assert path.read_text() == "same\nother\nsame\n"
        await call("edit_file", path="a.txt", old_text="same", new_text="new", replace_all=True)

    assert path.read_text() == "new\nother\nnew\n"


async def test_a_failed_write_leaves_the_file(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("before")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    async with working(FileTools(root=tmp_path)) as call:
        text, error = await call("write_file", path="a.txt", content="after")

    assert error is not None
    assert "'a.txt' cannot be written: no space left on device" in text
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


async def test_paths_outside_are_not_accessed_unapproved(tmp_path, monkeypatch):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    monkeypatch.setenv("HOME", str(outside))
    (outside / "a.txt").write_text("secret")
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "a.txt")
    paths = ("../outside/a.txt", str(outside / "a.txt"), "~/a.txt", "folder/a.txt", "file")
    asked = []

    for path in paths:
        async with working(FileTools(root=root)) as call:
            assert (await call("read_file", path=path))[1] == "denied"
            assert (await call("write_file", path=path, content="x"))[1] == "denied"
    assert (outside / "a.txt").read_text() == "secret"
    assert sorted(path.name for path in root.iterdir()) == ["file", "folder"]
    for path in paths:
        async with working(
            FileTools(root=root), approver=lambda ask, *_: asked.append(ask.prompt) or True
        ) as call:
            assert await call("read_file", path=path) == ("secret", None)
        assert asked[-1] == f"read_file uses a path outside of {root}: {path!r}"


async def test_a_command_returns_output_and_status(tmp_path):
    async with working(ShellTool(root=tmp_path)) as call:
        assert await call("shell", command="echo one; echo two >&2; pwd; exit 3") == (
            f"one\ntwo\n{tmp_path}\n[exit status 3]",
            None,
        )


async def test_long_output_keeps_both_ends(tmp_path):
    command = "echo first; head -c 10000000 /dev/zero | tr '\\0' 'x'; echo; echo last"

    async with working(ShellTool(root=tmp_path, output_bytes=1_000)) as call:
        text, error = await call("shell", command=command)

    assert error is None
    assert text.startswith("first\nxxx")
    assert text.endswith("xxx\nlast")
    assert "9,999,012 bytes are left out here" in text
    assert len(text) < 1_100


async def ended(call, ending, command, files):
    """Return the answer to *command*, which writes *files*; None if it was cancelled then."""

    def is_written():
        return all(file.exists() and file.read_text() for file in files)

    if ending != "cancelled":
        # As long as the machine needs to begin it.
        seconds = 0.5 if ending == "time" else 3_600
        answer = await call("shell", command=command, seconds=seconds)
        while not is_written():
            seconds *= 2
            answer = await call("shell", command=command, seconds=seconds)
        return answer
    running = asyncio.create_task(call("shell", command=command))
    while not is_written():
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait([running])
    return None


ENDINGS = pytest.mark.parametrize(
    ("ending", "error"), [("itself", None), ("time", "timeout"), ("cancelled", "")]
)


@ENDINGS
async def test_timeout_and_cancellation_end_all_processes(tmp_path, ending, error):
    stay = "trap '' TERM; (trap '' TERM; echo $$ >a; while :; do sleep 0.1; done) & echo $! >b; "
    stay += "until [ -s a ]; do :; done; "
    command = stay + ("echo done" if ending == "itself" else "echo begun; wait")
    files = [tmp_path / name for name in "ab"]

    async with working(ShellTool(root=tmp_path)) as call:
        answer = await ended(call, ending, command, files)

    if answer is not None:
        assert answer[0].startswith("done" if ending == "itself" else "begun")
        assert answer[1] == error
    for file in files:
        await gone(int(file.read_text()))


@ENDINGS
async def test_an_orphan_ends_with_its_command(tmp_path, ending, error):
    command = (
        "echo done; setsid -f sh -c 'echo $$ >a; exec sleep 3600'; until [ -s a ]; do :; done; "
    )
    command += "exit 3" if ending == "itself" else "sleep 3600"

    async with working(ShellTool(root=tmp_path)) as call:
        answer = await ended(call, ending, command, [tmp_path / "a"])

    if answer is not None:
        assert answer[0].startswith("done\n")
        assert ("exit status 3" in answer[0]) == (ending == "itself")
        assert answer[1] == error
    await gone(int((tmp_path / "a").read_text()))


async def test_keys_are_not_passed_on(tmp_path, monkeypatch):
    for name in ("OPENAI_API_KEY", "GITHUB_TOKEN", "EDITOR"):
        monkeypatch.setenv(name, f"value of {name}")

    async with working(ShellTool(root=tmp_path)) as call:
        text, _ = await call("shell", command="env")
    async with working(ShellTool(root=tmp_path, env=["GITHUB_TOKEN"])) as call:
        more, _ = await call("shell", command="env")

    assert {"EDITOR=value of EDITOR"} == {*re.findall(".*value of .*", text)}
    assert {"EDITOR=value of EDITOR", "GITHUB_TOKEN=value of GITHUB_TOKEN"} == {
        *re.findall(".*value of .*", more)
    }
