"""The text of a file that a host's tool writes, and which paths give none."""

import os

import pytest

from toolbus.events.catalogue import Scope
from toolbus.hosts.run.written_files import text_before
from toolbus.messages.records import ToolCall


@pytest.fixture
def project(tmp_path):
    """Return a project with files, links and a folder below, and a link to it beside it."""
    folder = tmp_path / "project"
    (folder / "sub/deep").mkdir(parents=True)
    for name in (".env", "sub/own", "sub/deep/a b", "../outside"):
        (folder / name).write_text("text\r\n", newline="")
    (folder / "link").symlink_to(".env")
    (folder / "linked").symlink_to("sub")
    (folder / "away").symlink_to("..")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "broken").write_bytes(b"\xff\xfe")
    (folder / "large").write_bytes(b"a" * 10_000_001)
    os.mkfifo(folder / "pipe")
    (tmp_path / "named").symlink_to("project")
    return folder


def before(project, file, folder="", name="Write", **more):
    folder = os.path.normpath(project / folder)
    scope = Scope(agent_id="a", session_id="s", folder=folder, project=str(project))
    return text_before(ToolCall(name=name, arguments={"file_path": file, **more}), scope)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        (".env", ""),
        ("./.env", ""),
        ("sub//own", ""),
        ("own", "sub"),
        ("deep/a b", "sub"),
        ("{project}/.env", "sub"),
        (".env", "../named"),
        ("{project}/../named/.env", "../named"),
        ("{named}/.env", "../named"),
        ("{named}/sub/own", "../named"),
    ],
)
def test_a_file_of_the_project_has_its_text(project, path, folder):
    path = path.format(project=project, named=project.parent / "named")
    expected = "" if ".." in path else "text\r\n"

    assert before(project, path, folder) == expected


@pytest.mark.parametrize(
    "path",
    [
        *("link", "linked/own", "away/project/.env", "away/outside", "dangling", "pipe", "sub"),
        *("broken", "large", "new", "", ".", "../outside", "sub/../.env", "~/.env", "$HOME/x"),
        *("{project}/link", "{outside}", "@.env", ".env\0", ".env\n", "file://{project}/.env"),
        *("{named}/.env", "x" * 5_000),
    ],
)
def test_any_other_path_has_none(project, path):
    above = project.parent
    path = path.format(project=project, outside=above / "outside", named=above / "named")

    assert before(project, path) == ""


def test_one_argument_names_the_file(project):
    assert before(project, ".env", content="x", old_string="y") == "text\r\n"
    assert before(project, ".env", path="sub/own") == ""
    assert before(project, ".env", edits=[{"filePath": "sub/own"}]) == ""
    assert before(project, [".env"]) == ""
    assert before(project, ".env", name="Bash") is None
    call = ToolCall(name="Write", arguments={"content": ".env"})
    assert text_before(call, Scope(agent_id="a", session_id="s", folder=str(project))) == ""
    call = ToolCall(name="Write", arguments={"path": ".env"})
    assert text_before(call, Scope(agent_id="a", session_id="s")) == ""
