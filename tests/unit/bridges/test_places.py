"""The environments of bridges, and the table of them in the guide, are those of the facts."""

import re
from importlib.util import find_spec

import pytest

from framework_environments import PLACES, Place, requirements
from framework_table import TABLE
from toolbus.bridges.frameworks import FRAMEWORKS


def test_each_framework_has_a_driver():
    assert {place.framework for place in PLACES} == set(FRAMEWORKS)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_oldest_release_is_that_of_the_facts(name):
    framework = FRAMEWORKS[name]
    oldest = framework.versions[0].removesuffix(".0")

    (installed,) = [one for one in requirements(Place(name, "oldest")) if "==" in one]
    (allowed,) = [one for one in requirements(Place(name)) if one.startswith(framework.package)]

    assert re.fullmatch(rf"{framework.package}(\[.+\])?=={re.escape(oldest)}(\.0)?", installed)
    assert re.search(rf">={re.escape(oldest)}(\.0)?,", allowed)


def test_the_page_lists_each_framework():
    page = TABLE.read_text("utf-8")
    rows = re.findall(r"^\| (.+) \| `(\S+)` \| (.+) \| `(\S+) import (\w+)` \|", page, re.MULTILINE)

    assert [row[:3] for row in rows] == [
        (one.title, f"toolbus[{one.extra}]", " to ".join(dict.fromkeys(one.versions)))
        for one in FRAMEWORKS.values()
    ]
    assert [row[3] for row in rows] == [f"toolbus.bridges.{name}" for name in FRAMEWORKS]
    assert all(find_spec(row[3]) for row in rows)
