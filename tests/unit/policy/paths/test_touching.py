import os

import pytest

from toolbus.policy.commands import PathUse, Word
from toolbus.policy.paths.path_patterns import path_patterns
from toolbus.policy.paths.resolving import CallPlace, PathResolver
from toolbus.policy.paths.touching import stays_within, touches


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("print()")
    (folder / ".env").write_text("KEY=1")
    (folder / "README.md").write_text("# shop")
    return folder


def touch(project, text, patterns=("**/.env",), *, kind="read", folder=".", **options):
    word = options.pop("word", None) or Word(text, pattern=any(each in text for each in "*?[~"))
    home = str(project.parent)
    resolver = PathResolver(CallPlace(folder=str(project), home=home))
    use = PathUse(word, kind, folder)
    return touches(use, path_patterns(patterns, str(project), home), resolver, **options)


def within(project, text, patterns, *, kind="read", folder="."):
    resolver = PathResolver(CallPlace(folder=str(project), home=str(project.parent)))
    use = PathUse(Word(text, pattern=any(each in text for each in "*?[~")), kind, folder)
    return stays_within(use, path_patterns(patterns, str(project)), resolver)


@pytest.mark.parametrize(
    "text",
    [".env", "./.env", "src/../.env", "sub/../.env", ".//.env/", "src/./../.env/.", "../shop/.env"],
)
def test_a_file_is_denied_by_whatever_path(project, text):
    assert touch(project, text).path == str(project / ".env")


@pytest.mark.parametrize(
    "text",
    ["/proc/self/cwd/.env", "/proc/thread-self/cwd/.env", "/proc/self/task/7/cwd/.env", "~/.env"],
)
def test_the_process_that_will_run_has_its_own_folders(project, text):
    (project.parent / ".env").symlink_to("shop/.env")

    assert touch(project, text).path == str(project / ".env")


@pytest.mark.parametrize("text", ["/proc/77/root/tmp/.env", "other/.env", "/dev/../tmp/.env"])
def test_a_file_that_is_not_there_is_known_by_its_name(project, text):
    assert touch(project, text).answer == "yes"


@pytest.mark.parametrize("text", ["README.md", ".envrc", "env", ".env.example", "src", "/dev/fd/3"])
def test_other_files_are_not(project, text):
    assert touch(project, text).answer == "no"


def test_a_link_is_known_by_its_own_name_and_by_what_it_leads_to(project):
    (project / "plain").symlink_to(".env")
    (project / "src" / ".env").symlink_to("/etc/hostname")

    assert touch(project, "plain").path == str(project / ".env")
    assert touch(project, "src/.env").path == str(project / "src" / ".env")


def test_a_dangling_link_leads_to_what_would_be_there(project):
    (project / "plain").symlink_to("src/new/.env")

    assert touch(project, "plain", kind="write").path == str(project / "src/new/.env")


def test_what_nobody_can_know_is_asked_about(project):
    (project / "loop").symlink_to("loop")

    assert touch(project, "", word=Word("$x", known=False)).answer == "maybe"
    assert touch(project, "README.md", folder=None).answer == "maybe"
    assert touch(project, "README.md", settled=False).answer == "maybe"
    assert touch(project, "loop").answer == "maybe"
    assert touch(project, "/proc/77/cwd/x").answer == "maybe"


def test_a_folder_behind_a_link_is_unknown_where_shell_and_kernel_differ(project):
    (project / "deep").symlink_to("/usr/share")

    assert touch(project, "x", folder="src/..").answer == "no"
    assert touch(project, "x", folder="deep/..").answer == "maybe"


def test_a_rule_that_allows_wants_all_of_it_inside(project):
    (project / "src" / "out").symlink_to("/etc")

    assert within(project, "src/app.py", ["./src/**"]).answer == "yes"
    assert within(project, "src", ["./src/**"]).answer == "yes"
    assert within(project, "src/../README.md", ["./src/**"]).answer == "no"
    assert within(project, "src/out/passwd", ["./src/**"]).path == os.path.realpath("/etc/passwd")
    assert within(project, "x", ["./src/**"], folder=None).answer == "maybe"
