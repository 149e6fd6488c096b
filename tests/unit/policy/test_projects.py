import os
import shutil

import pytest

from toolbus.policy import projects
from toolbus.policy.paths.path_patterns import path_patterns
from toolbus.policy.projects import process_folder, project_at


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder that only the system's list of users knows."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    monkeypatch.setattr(projects, "_listed_home", lambda _: str(folder))
    return folder


def test_the_listed_home_is_one_whatever_the_environment_says(home, tmp_path):
    assert "home folder" in project_at(str(home)).path_warning
    assert "home folder" in project_at(str(tmp_path)).path_warning
    assert project_at(str(home / "code")) == (str(home / "code"), "")


def test_a_home_that_is_a_link_is_known_by_where_it_leads(home, tmp_path, monkeypatch):
    (tmp_path / "other").symlink_to(tmp_path / "real/home")
    (tmp_path / "real/home").mkdir(parents=True)

    assert "home folder" in project_at(str(tmp_path / "real/home")).path_warning
    assert "home folder" in project_at(str(tmp_path / "real")).path_warning


def test_who_has_no_home_has_projects(tmp_path, monkeypatch):
    monkeypatch.setattr(projects, "_homes", lambda: iter(()))

    assert project_at(str(tmp_path)).path_warning == ""
    assert project_at("/").path_warning
    assert project_at("relative") == ("relative", project_at("").path_warning)


def test_a_folder_that_others_may_write_is_one_unless_all_share_it(home, tmp_path):
    folder = tmp_path / "mounted"
    folder.mkdir()

    for mode, has_fault in ((0o777, False), (0o1777, True), (0o1775, False)):
        folder.chmod(mode)
        assert bool(project_at(str(folder)).path_warning) == has_fault


def test_a_process_without_a_folder_has_no_project(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")

    assert process_folder() == "/"
    monkeypatch.chdir(tmp_path)
    assert process_folder() == os.path.realpath(tmp_path)


def test_without_a_project_relative_patterns_name_nothing():
    texts = ["./**", "src/", ".", "..", "../x", "{a/b,c}", "**/d", "e*", "~/f", "/g", "a//b"]

    patterns = path_patterns(texts, None, "/home/ada")

    assert [pattern.text for pattern in patterns] == ["src/", "{a/b,c}", "**/d", "e*", "~/f", "/g"]
    for text in ("./*/../x", "./$HOME/**"):
        with pytest.raises(ValueError, match=r"wildcard|variable|negated"):
            path_patterns([text], None, "/home/ada")
