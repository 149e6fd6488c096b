import os
from pathlib import Path

import pytest

from toolbus.policy.commands import PathUse, TreeRules, Word
from toolbus.policy.paths.file_access import stays_within, touches
from toolbus.policy.paths.path_patterns import path_patterns
from toolbus.policy.paths.resolver import CallPlace, PathResolver
from toolbus.policy.paths.targets import argument_word


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("print()")
    (folder / ".env").write_text("KEY=1")
    (folder / "README.md").write_text("# shop")
    return folder


def access(project, text, patterns=("**/.env",), *, kind="read", folder=".", **options):
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
    assert access(project, text).path == str(project / ".env")


@pytest.mark.parametrize(
    "folder", ["/proc/self/cwd", "/proc/thread-self/cwd", "/proc/self/task/7/cwd", "/proc/77/fd/3"]
)
def test_a_link_of_a_process_is_a_doubt_and_its_end_a_name(project, folder):
    (project / "plain").symlink_to(".env")

    assert access(project, f"{folder}/.env").answer == "yes"
    assert access(project, f"{folder}/plain").answer == "maybe"


def test_a_home_folder_is_found(project):
    (project.parent / ".env").symlink_to("shop/.env")

    assert access(project, "~/.env").path == str(project / ".env")


@pytest.mark.parametrize("text", ["/proc/77/root/tmp/.env", "other/.env", "/dev/../tmp/.env"])
def test_a_file_that_is_not_there_is_known_by_its_name(project, text):
    assert access(project, text).answer == "yes"


@pytest.mark.parametrize(
    "text", ["README.md", ".envrc", "env", ".env.example", "src", "/dev/fd/3", "/proc/self/status"]
)
def test_other_files_are_not(project, text):
    assert access(project, text).answer == "no"


def test_a_link_is_known_by_its_own_name_and_by_what_it_leads_to(project):
    (project / "plain").symlink_to(".env")
    (project / "src" / ".env").symlink_to("/etc/hostname")

    assert access(project, "plain").path == str(project / ".env")
    assert access(project, "src/.env").path == str(project / "src" / ".env")


def test_a_dangling_link_leads_to_what_would_be_there(project):
    (project / "plain").symlink_to("src/new/.env")

    assert access(project, "plain", kind="write").path == str(project / "src/new/.env")


def test_what_nobody_can_know_is_asked_about(project):
    (project / "loop").symlink_to("loop")

    assert access(project, "", word=Word("$x", known=False)).answer == "maybe"
    assert access(project, "README.md", folder=None).answer == "maybe"
    assert access(project, "README.md", paths_stable=False).answer == "maybe"
    assert access(project, "loop").answer == "maybe"
    assert access(project, "/proc/77/cwd/x").answer == "maybe"


def test_a_folder_behind_a_link_is_unknown_where_shell_and_kernel_differ(project):
    (project / "deep").symlink_to("/usr/share")

    assert access(project, "x", folder="src/..").answer == "no"
    assert access(project, "x", folder="deep/..").answer == "maybe"


def test_a_rule_that_allows_wants_all_of_it_inside(project):
    (project / "src" / "out").symlink_to("/etc")

    assert within(project, "src/app.py", ["./src/**"]).answer == "yes"
    assert within(project, "src", ["./src/**"]).answer == "yes"
    assert within(project, "src/../README.md", ["./src/**"]).answer == "no"
    assert within(project, "src/out/passwd", ["./src/**"]).path == os.path.realpath("/etc/passwd")
    assert within(project, "x", ["./src/**"], folder=None).answer == "maybe"


@pytest.mark.parametrize(
    "text", [".e*v", ".[e]nv", ".*", "./.??v", "*/../.env", "~/*/.env", "s*/../.e*"]
)
def test_a_glob_is_what_it_stands_for(project, text):
    assert access(project, text).path == str(project / ".env")


@pytest.mark.parametrize("text", ["*", "*.md", "src/*", "[!.]*", "*nv", ".envr*"])
def test_a_glob_that_stands_for_other_files_is_not_asked_about(project, text):
    assert access(project, text).answer == "no"


def test_a_glob_follows_links(project):
    (project / "src" / "plain").symlink_to("../.env")

    assert access(project, "src/p*").path == str(project / ".env")


def test_a_glob_that_is_aimed_at_a_file_that_may_appear_is_asked_about(project):
    (project / ".env").unlink()

    assert access(project, ".e*v").answer == "maybe"
    assert access(project, "*/.env").answer == "yes"
    assert access(project, "*.pem", ["*.pem"]).answer == "yes"
    assert access(project, "*.json", ["**/credentials.json"]).answer == "no"
    assert access(project, "secrets/*", ["./secrets/**"]).answer == "yes"


def test_a_glob_of_too_much_is_asked_about(project, monkeypatch):
    monkeypatch.setattr("toolbus.policy.paths.targets.MOST_ENTRIES", 2)

    assert access(project, "*/*").answer == "maybe"
    assert access(project, "*/" * 300).answer == "maybe"


def test_what_names_a_folder_holds_for_all_in_it(project):
    assert access(project, "secrets/a/b", ["secrets"]).answer == "yes"
    assert access(project, "secrets", ["./secrets/**"]).answer == "yes"
    assert access(project, "secrets", ["./secrets/*"]).answer == "no"


def test_a_pattern_counts_from_where_its_links_lead(project):
    (project / "conf").symlink_to("src")

    assert access(project, "src/key", ["./conf/key"]).answer == "yes"
    assert access(project, "conf/key", ["./src/key"]).answer == "yes"


def test_a_recursive_reader_reads_what_is_below(project):
    assert access(project, ".", kind="read-tree").path == str(project / ".env")
    assert access(project, "src", kind="read-tree").answer == "no"
    assert access(project, "..", kind="read-tree", folder="src").path == str(project / ".env")
    assert access(project, ".", kind="read").answer == "no"


def tree(project, patterns=("**/.env",), **options):
    resolver = PathResolver(CallPlace(folder=str(project)))
    use = PathUse(Word("."), "read-tree", ".", TreeRules(**options))
    return touches(use, path_patterns(patterns, str(project)), resolver)


def test_a_reader_that_leaves_out_hidden_files_reads_none(project):
    (project / ".github").mkdir()
    (project / ".github" / ".env").touch()

    assert tree(project, hidden=False).answer == "no"
    assert tree(project, hidden=False, include=("*.py",)).answer == "no"
    assert tree(project, hidden=True, include=("*.py", ".e*")).answer == "yes"
    assert tree(project, exclude=(".env",)).answer == "no"
    assert tree(project, exclude=("*.py",)).answer == "yes"


def test_a_reader_leaves_out_what_git_ignores(project):
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("# not ours\nbuild/\n*.key\n!open.key\n")
    for name in ("build", "src/build"):
        (project / name).mkdir()
        (project / name / "key.json").touch()
    (project / "a.key").touch()

    assert tree(project, ["key.json", "a.key"], ignored=False).answer == "no"
    assert tree(project, ["key.json"]).answer == "yes"

    (project / "open.key").touch()
    assert tree(project, ["open.key"], ignored=False).answer == "yes"


def test_what_is_taken_back_is_read_although_it_is_hidden(project):
    (project / ".ignore").write_text("!.env\n")

    assert tree(project, hidden=False, ignored=False).answer == "yes"


def test_a_list_of_git_counts_in_a_repository_only(project):
    (project / ".gitignore").write_text("key.json\n")
    (project / "key.json").touch()

    assert tree(project, ["key.json"], ignored=False).answer == "yes"


def test_a_walk_follows_links_where_the_reader_does(project):
    (project / "inner").mkdir()
    (project / "inner" / "up").symlink_to("..")
    resolver = PathResolver(CallPlace(folder=str(project)))
    patterns = path_patterns(["**/.env"], str(project))

    def answer(*, links):
        use = PathUse(Word("inner"), "read-tree", ".", TreeRules(links=links))
        return touches(use, patterns, resolver).answer

    assert answer(links=False) == "no"
    assert answer(links=True) == "yes"


def test_a_walk_that_is_too_long_is_asked_about(project, monkeypatch):
    (project / ".env").unlink()
    monkeypatch.setattr("toolbus.policy.paths.tree_walks.MOST_ENTRIES_BELOW", 2)

    assert access(project, ".", kind="read-tree").answer == "maybe"


@pytest.mark.full
def test_a_large_tree_is_walked(project):
    (project / ".env").unlink()
    for folder in range(60):
        (project / str(folder)).mkdir()
        for number in range(1_000):
            os.mknod(project / str(folder) / str(number))

    assert access(project, ".", kind="read-tree").answer == "no"
    (project / "59" / ".env").touch()
    assert access(project, ".", kind="read-tree").answer == "yes"


def test_a_walk_goes_only_where_the_pattern_may_be(project, monkeypatch):
    (project / ".ssh").mkdir()
    monkeypatch.setattr("toolbus.policy.paths.tree_walks.MOST_ENTRIES_BELOW", 0)

    assert access(project, "/", ["~/.ssh/key", "/nowhere/x"], kind="read-tree").answer == "no"


def test_a_folder_in_another_spelling_has_the_same_files_below(project):
    (project.parent / "SHOP/sub").mkdir(parents=True)
    (project.parent / "SHOP/sub/key").touch()

    assert access(project, "../SHOP", ["./sub/key"], kind="read-tree").answer == "yes"
    assert access(project, "../SHOP", ["./sub/key"], kind="destroy").answer == "yes"
    assert access(project, "../SHOP", ["./src/key"], kind="read-tree").answer == "no"


def test_who_destroys_a_folder_destroys_what_is_in_it(project):
    assert access(project, ".", kind="destroy").answer == "yes"
    assert access(project, "../shop", ["~/shop/src/**"], kind="destroy").answer == "yes"
    assert access(project, "src", kind="destroy").answer == "no"


def test_who_writes_into_a_folder_fills_it(project):
    assert access(project, ".", kind="write").answer == "no"
    assert access(project, "src", ["./src/*"], kind="write").answer == "yes"


def test_a_file_of_a_revision_is_that_file(project):
    (project / ".git").mkdir()

    assert access(project, "HEAD:.env").answer == "yes"
    assert access(project, "HEAD:.env", ["./.env"], folder="src").answer == "yes"
    assert access(project, "HEAD:src/app.py").answer == "no"


def test_who_removes_or_replaces_a_link_changes_where_it_is(project):
    (project.parent / "link").symlink_to("shop/src/app.py")

    assert within(project, "../link", ["./src/**"]).answer == "yes"
    assert within(project, "../link", ["./src/**"], kind="write").answer == "no"


def test_a_rule_that_allows_wants_all_that_is_below_inside(project):
    assert within(project, "src", ["./src/**"], kind="destroy").answer == "yes"
    assert within(project, ".", ["./src/**"], kind="read-tree").answer == "no"
    assert within(project, "src", ["./src/*"], kind="read-tree").answer == "no"
    assert within(project, "src/*", ["./src/**"]).answer == "yes"
    assert within(project, "src", ["./src/**"], kind="write").answer == "yes"
    assert within(project, ".*", ["./**"], kind="destroy").answer == "no"


def test_a_home_folder_is_what_the_shell_expands(project):
    root = Path("~root").expanduser()

    assert access(project, "~/shop/.env").answer == "yes"
    assert access(project, f"{root}/.ssh/id", ["~root/.ssh/**"]).answer == "yes"
    assert access(project, "~root/.ssh/id", [f"{root}/.ssh/**"]).answer == "yes"
    assert access(project, "~+/.env").answer == "yes"
    assert access(project, "~-/x").answer == "maybe"
    assert access(project, "~nobody-is-called-so/x").answer == "no"
    assert access(project, "", word=Word("~/shop/.env")).path == str(project / "~/shop/.env")
    assert (
        touches(
            PathUse(argument_word("~/[x]/.env"), "read"),
            path_patterns(["~/[[]x]/.env"], str(project), str(project.parent)),
            PathResolver(CallPlace(str(project), str(project.parent))),
        ).answer
        == "yes"
    )


@pytest.mark.parametrize(
    ("kind", "answer"),
    [("read", "no"), ("write", "no"), ("read-tree", "maybe"), ("destroy", "maybe")],
)
def test_a_descriptor_is_not_a_file_but_may_be_a_folder(project, kind, answer):
    assert access(project, "/dev/fd/3", kind=kind).answer == answer
    assert access(project, "/dev/stdin", kind=kind).answer == answer
    assert access(project, "/dev/fd/3/", kind=kind).answer == "maybe"


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_name_that_no_system_takes_is_asked_about_beside_known_files(project, name):
    resolver = PathResolver(CallPlace(str(project)))
    patterns = path_patterns(["**/.env"], str(project))

    answers = [
        touches(PathUse(argument_word(each), "read"), patterns, resolver).answer
        for each in (".", name)
    ]

    assert answers == ["no", "maybe"]


def test_a_name_with_a_null_byte_beside_a_known_file_is_asked_about(project):
    resolver = PathResolver(CallPlace(str(project)))
    resolver.resolve(str(project / "README.md"))

    assert resolver.resolve(f"{project}/a\0b").doubt


def test_a_tree_with_a_link_of_a_process_in_it_is_asked_about(project, monkeypatch):
    (project.parent / "other").mkdir()
    monkeypatch.chdir(project.parent / "other")
    (project / "src" / "link").symlink_to("/proc/self/cwd")
    everything, with_links = TreeRules(), TreeRules(links=True)

    answers = [
        touches(
            PathUse(Word("src"), "read-tree", ".", rules),
            path_patterns(["/elsewhere/**", "**/secret.txt"], str(project)),
            PathResolver(CallPlace(str(project))),
        ).answer
        for rules in (everything, with_links)
    ]

    assert answers == ["no", "maybe"]
