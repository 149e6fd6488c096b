"""Files that nobody writes, and that are read all the same."""

import pytest

from toolbus.config.configuration import load
from toolbus.config.documents import find, read_document
from toolbus.errors import ConfigurationError


@pytest.mark.parametrize("text", ["x = " + "[" * 9_000 + "]" * 9_000, "a." * 3_000 + "b = 1"])
def test_what_is_nested_too_deeply_is_refused(tmp_path, text):
    file = tmp_path / "toolbus.toml"
    file.write_text(text)

    with pytest.raises(ConfigurationError):
        load(file)


def test_a_number_that_python_refuses_is_refused(tmp_path):
    file = tmp_path / "toolbus.toml"
    file.write_text("x = " + "9" * 5_000)

    with pytest.raises(ConfigurationError, match="exceeds the limit"):
        load(file)


def test_windows_ends_of_lines_count_once(tmp_path):
    file = tmp_path / "toolbus.toml"
    file.write_bytes(b"\r\n[[component]]\r\nuse = 3\r\n")

    with pytest.raises(ConfigurationError) as caught:
        load(file)

    assert caught.value.line == 3


def test_a_table_without_a_line_of_its_own_has_the_nearest(tmp_path):
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.toolbus.quite.thing]\n")

    with pytest.raises(ConfigurationError, match=r":1: unknown key 'quite'; known: approvals"):
        load(file)


def test_a_table_of_another_kind_is_refused(tmp_path):
    file = tmp_path / "pyproject.toml"
    for text in ("tool = 3", "[tool]\ntoolbus = 3"):
        file.write_text(text)
        with pytest.raises(ConfigurationError, match=r"there is no \[tool\.toolbus\] in it"):
            load(file)


def test_a_broken_project_that_speaks_of_us_is_not_passed(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[tool.toolbus")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigurationError, match=r"^pyproject\.toml:1"):
        find()


def test_a_project_that_only_mentions_us_is_passed(tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "toolbus.toml").touch()
    (tmp_path / "project/pyproject.toml").write_text("tool = 3 # toolbus")
    monkeypatch.chdir(tmp_path / "project")

    assert find() == tmp_path / "toolbus.toml"


def test_a_place_that_is_not_there_is_that_around_it(tmp_path):
    file = tmp_path / "toolbus.toml"
    file.write_text("\n[a]\nb = { c = 1 }\n")

    error = read_document(file).error("it is wrong", "a", "b", "d", 0)

    assert str(error) == f"{file}:3: it is wrong"
