"""The patterns of families of paths."""

import pytest

from toolbus.suggest.path_families import family_patterns, is_data, kind_of_path


@pytest.mark.parametrize(
    ("names", "read", "written", "made"),
    [
        (["order-1.csv", "order-12.csv"], *[["order-[0-9]*.csv"]] * 3),
        (["a.md", "b.md"], ["[!.]*.md"], ["[!.A-Z]*.md"], ["[!.]*.md"]),
        (["A.md", "B.md"], ["[!.]*.md"], [], ["[!.]*.md"]),
        (["C1.md", "C2.md"], *[["C[0-9]*.md"]] * 3),
        (["p1.json", "p2.json"], *[["p[0-9]*.json"]] * 3),
        (["a1.py", "a2.py"], ["a[0-9]*.py"], [], ["a[0-9]*.py"]),
        (["a.json", "b.json"], [], [], []),
        (["a.yaml", "b.yaml"], [], [], []),
        (["a.txt", "b.txt"], [], [], []),
        (["a.py", "b.py"], [], [], []),
        (["a.crt", "b.crt"], [], [], []),
        (
            ["week-1", "week-22"],
            ["week-[0-9]", "week-[0-9][0-9]"],
            [],
            ["week-[0-9]", "week-[0-9][0-9]"],
        ),
        (["week-1", "month-1"], [], [], []),
        (["1", "2"], [], [], []),
        (["2024-01.md", "2024-02.md"], ["[!.]*.md"], ["[!.A-Z]*.md"], ["[!.]*.md"]),
        (["x.py"], ["x.py"], [], ["x.py"]),
    ],
)
def test_names_of_a_kind_have_a_pattern(names, read, written, made):
    paths = {f"docs/in/{name}" for name in names}
    found = [
        family_patterns(paths, is_written=False),
        family_patterns(paths, is_written=True),
        family_patterns(paths, is_written=True, makes_folders=True),
    ]

    assert found == [[f"docs/in/{each}" for each in kinds] for kinds in (read, written, made)]


def test_a_kind_is_a_folder_an_ending_and_a_case():
    kinds = {kind_of_path(path) for path in ("a/b.md", "a/c.md", "a/d/b.md", "a/B.md", "a/b.txt")}

    assert kinds == {"a/a.md", "a/d/a.md", "a/A.md", "a/a.txt"}


def test_code_is_not_data():
    names = ("a.csv", "a/b.json", "a.py", "Makefile", "a.sh", "a", ".csv")

    assert [name for name in names if is_data(name)] == ["a.csv", "a/b.json"]
