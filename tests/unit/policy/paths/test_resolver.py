import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolbus.policy.commands import PathUse, Word
from toolbus.policy.paths.file_access import touches
from toolbus.policy.paths.path_patterns import path_patterns
from toolbus.policy.paths.resolver import CallPlace, PathResolver


@pytest.fixture(scope="module")
def tangle(tmp_path_factory):
    """Folders, files, and links of each kind between them."""
    root = Path(os.path.realpath(tmp_path_factory.mktemp("tangle")))
    for folder in ("a/b/c", "d/e"):
        (root / folder).mkdir(parents=True)
    for file in ("a/x", "a/b/.env", "d/x"):
        (root / file).touch()
    (root / "a" / "up").symlink_to("..")
    (root / "a" / "l").symlink_to("b/c")
    (root / "d" / "abs").symlink_to(root / "a")
    (root / "d" / "e" / "chain").symlink_to("../abs/l")
    (root / "a" / "b" / "env").symlink_to(".env")
    (root / "d" / "gone").symlink_to("../nowhere/x")
    return root


PARTS = st.sampled_from(["a", "b", "c", "d", "e", "x", "up", "l", "abs", "chain", "..", ".", ""])
ENDS = st.sampled_from(["", ".env", "env", "gone", "x", "new"])


@given(parts=st.lists(PARTS, max_size=10), end=ENDS)
@settings(
    max_examples=5 * settings.default.max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_path_leads_where_realpath_says(tangle, parts, end):
    path = "/".join([str(tangle), *parts, end])

    assert PathResolver(CallPlace("/")).resolve(path).path == os.path.realpath(path)


@given(parts=st.lists(PARTS, max_size=8), end=ENDS)
@settings(
    max_examples=5 * settings.default.max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_spelling_hides_a_file_that_a_rule_names(tangle, parts, end):
    path = "/".join([*parts, end]) or "."
    real = os.path.realpath(tangle / path)
    patterns = path_patterns(["**/.env", "./a/**", "d/x"], str(tangle))
    resolver = PathResolver(CallPlace(str(tangle)))

    plain = touches(PathUse(Word(real), "read"), patterns, resolver)
    spelled = touches(PathUse(Word(path), "read"), patterns, resolver)

    assert plain.answer == "no" or spelled.answer == "yes"


def test_each_link_on_the_way_is_a_name(tangle):
    resolved = PathResolver(CallPlace("/")).resolve(f"{tangle}/d/abs/b/env")

    assert set(resolved.names) == {
        f"{tangle}/a/b/.env",
        f"{tangle}/a/b/env",
        f"{tangle}/d/abs/b/env",
    }
    assert resolved.entry == f"{tangle}/a/b/env"


def test_a_loop_of_links_is_a_doubt(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    assert "too many links" in PathResolver(CallPlace("/")).resolve(f"{tmp_path}/a").doubt


def test_links_that_lead_to_each_other_cost_no_more_than_their_number(tmp_path):
    for number in range(60):
        (tmp_path / f"l{number}").symlink_to("/".join([f"l{number + 1}/.."] * 20 + ["x"]))

    resolved = PathResolver(CallPlace("/")).resolve(f"{tmp_path}/l0/x")

    assert resolved.doubt
    assert len(resolved.names) < 1_000


@pytest.mark.parametrize(
    "path", ["/tmp/" + "x" * 5_000, "/tmp/a\0b", "/tmp" + "/x/.." * 150 + "/.env"]
)
def test_what_no_file_system_takes_is_a_doubt(path):
    assert PathResolver(CallPlace("/")).resolve(path).doubt


def test_another_spelling_is_the_same_file_on_every_system(tmp_path):
    patterns = path_patterns(["**/.env", "./Src/*"], str(tmp_path))

    def answer(text):
        resolver = PathResolver(CallPlace(str(tmp_path)))
        return touches(PathUse(Word(text), "write"), patterns, resolver).answer

    assert answer(".ENV") == "yes"
    assert answer(".\uff25nv") == "yes"
    assert answer("src/x") == "yes"
    assert answer("Src/x") == "yes"
    assert answer("README.md") == "no"
