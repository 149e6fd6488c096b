import pytest

from toolbus.policy.paths.name_globs import plain_name
from toolbus.policy.paths.path_patterns import components_of, meets, path_patterns


def starts(*texts):
    return [each.start for each in path_patterns(texts, "/home/ada/shop", "/home/ada")]


def test_a_pattern_starts_where_it_says():
    assert starts(".env", "**/.env", "*.pem", "**") == ["", "", "", ""]
    assert starts("./.env", "src/**", "./**", ".", "../other/*") == [
        "/home/ada/shop/.env",
        "/home/ada/shop/src",
        "/home/ada/shop",
        "/home/ada/shop",
        "/home/ada/other",
    ]
    assert starts("~", "~/.ssh/**", "/etc//x", "/") == [
        "/home/ada",
        "/home/ada/.ssh",
        "/etc/x",
        "/",
    ]


def test_a_folder_with_wildcards_in_its_name_is_a_folder():
    (pattern,) = path_patterns(["./*.py"], "/home/[ada]/shop*")

    assert pattern.start == "/home/[ada]/shop*"


def test_alternatives_are_patterns_of_their_own():
    patterns = path_patterns(["*.{pem,key,{p12,pfx}}", "{x}", "\\{a,b}"], "/")

    names = [pattern.components[-1].literal or pattern.needle for pattern in patterns]
    assert names == [".pem", ".key", ".p12", ".pfx", "{x}", "{a,b}"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is not a path"),
        ("!.env", "patterns cannot be negated"),
        ("$HOME/.ssh", "patterns cannot contain variables"),
        ("${HOME}/.ssh", "cannot contain variables"),
        ("a/*/../b", "'..' cannot follow a wildcard"),
        ("~no-such-user/x", "unknown home folder"),
        ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "more than 100 alternatives"),
        ("a\0b", "is not a path"),
    ],
)
def test_a_pattern_that_means_nothing_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        path_patterns([text], "/home/ada/shop", "/home/ada")


@pytest.mark.parametrize(
    ("pattern", "path", "answer"),
    [
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "a/x/y/c", False),
        ("**/b", "b", True),
        ("a/**", "a", True),
        ("a/*", "a", False),
        ("a/*", "a/b/c", True),
        ("a", "a/b/c", True),
        ("a**c/d", "abc/d", True),
        ("**/a/**/a", "a/b", False),
    ],
)
def test_two_stars_are_any_number_of_folders(pattern, path, answer):
    names = [plain_name(name) for name in path.split("/")]

    assert meets(components_of(pattern.split("/")), names) == answer


def test_many_stars_cost_little():
    pattern = components_of(["**", "a"] * 50)

    assert not meets(pattern, [plain_name("a")] * 49)
    assert meets(pattern, [plain_name("a")] * 50)
