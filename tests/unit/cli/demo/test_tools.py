"""The demo's tools stay in their folder."""

import pytest

from toolbus.cli.demo.tools import Workspace


@pytest.fixture
def workspace(tmp_path):
    root = tmp_path / "root"
    (root / ".git").mkdir(parents=True)
    (root / ".git/config").write_text("secret")
    (root / "notes").mkdir()
    (root / "notes/one.txt").write_text("first\nsecond\n")
    (tmp_path / "outside.txt").write_text("secret")
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (root / "away").symlink_to(tmp_path)
    return Workspace(root)


@pytest.mark.parametrize(
    "path", ["../outside.txt", "/etc/passwd", "link.txt", ".git/config", "away/outside.txt"]
)
def test_paths_outside_are_refused(workspace, tmp_path, path):
    for use in (
        lambda: workspace.read_file.run(path=path),
        lambda: workspace.search_files.run(pattern="secret", path=path),
        lambda: workspace.write_file.run(path=path, text="x"),
    ):
        with pytest.raises(PermissionError, match="outside the folder"):
            use()
    assert (tmp_path / "outside.txt").read_text() == "secret"


@pytest.mark.parametrize("command", ["cat ../outside.txt", "ls /etc", "ls ~", "cat notes/../../x"])
def test_commands_that_name_other_places_are_refused(workspace, command):
    with pytest.raises(PermissionError, match="outside the folder"):
        workspace.run_command.run(command=command)


def test_files_are_read_and_written(workspace):
    assert workspace.read_file.run(path="notes/one.txt") == "first\nsecond\n"
    assert workspace.write_file.run(path="new/two.txt", text="2") == (
        "wrote 1 characters to new/two.txt"
    )
    assert workspace.read_file.run(path="new/two.txt") == "2"
    with pytest.raises(FileNotFoundError, match="there is no file 'notes'"):
        workspace.read_file.run(path="notes")


def test_a_search_names_file_and_line_and_leaves_links_and_git_out(workspace):
    assert workspace.search_files.run(pattern="sec") == "notes/one.txt:2: second"
    assert workspace.search_files.run(pattern="zzz") == "no line matches"


def test_a_command_says_how_it_failed(workspace):
    done = workspace.run_command.run(command="echo out; echo err >&2; exit 3")
    quiet = workspace.run_command.run(command="true")

    assert (done.text, done.is_error) == ("out\nerr\n(exit code 3)", True)
    assert (quiet.text, quiet.is_error) == ("(no output)", False)
