"""What `python -m pydoc toolbus.testing` tells people to write, works."""

import importlib
import pydoc
import re
import sys
import textwrap
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from toolbus import Agent, testing
from toolbus.config.configuration import load
from toolbus.models.scripted import ScriptedModel

ACME = Path(__file__).parents[2] / "distributions/acme-guards"
FILES = {
    name: textwrap.dedent(block).strip() + "\n"
    for name, block in re.findall(
        r"`(\w+\.\w+)`:\n\n((?:    .*\n|\n)+?)(?=\n*\S|\Z)", testing.__doc__
    )
}


def test_the_guide_has_all_its_files():
    assert list(FILES) == [
        "acme_tidy.py",
        "test_acme_tidy.py",
        "test_guard.py",
        "pyproject.toml",
        "toolbus.toml",
    ]


@pytest.mark.parametrize("name", FILES)
def test_each_part_has_at_most_thirty_lines(name: str):
    assert len([line for line in FILES[name].splitlines() if line]) <= 30


def test_pydoc_shows_it():
    assert "WRITE IT." in pydoc.render_doc(testing)
    assert "check_adapter" in dir(testing)


def test_pydoc_shows_it_without_hypothesis(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("toolbus.testing")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hypothesis", None)

    text = pydoc.plain(pydoc.render_doc(importlib.import_module("toolbus.testing")))

    assert "WRITE IT." in text
    assert "class Recorder" in text


@pytest.mark.full
def test_its_tests_pass(pytester):
    for name, text in FILES.items():
        pytester.path.joinpath(name).write_text(text, "utf-8")
    run = ["-p", "toolbus_pytest", "-p", "no:cacheprovider", "-W", "error", "--rootdir=."]

    kept = pytester.runpytest_subprocess(*run, "--toolbus-update")
    compared = pytester.runpytest_subprocess(*run, "-k", "ledger")

    kept.assert_outcomes(passed=6)
    compared.assert_outcomes(passed=1, deselected=5)
    ledger = pytester.path / "snapshots/test_acme_tidy/test_the_ledger_names_it.txt"
    assert "~ Fold" in ledger.read_text("utf-8")


async def test_its_package_offers_the_component(tmp_path, monkeypatch):
    for name, text in FILES.items():
        tmp_path.joinpath(name).write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ACME)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    # Built by the backend of our other package, which needs no network.
    wheel = importlib.import_module("backend").build_wheel(tmp_path)
    ZipFile(tmp_path / wheel).extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    included = tomllib.loads(FILES["pyproject.toml"])["tool"]["hatch"]["build"]["targets"]["wheel"]

    components = load(tmp_path / "toolbus.toml")

    def read_log() -> str:
        return "ok\nok"

    async with Agent(ScriptedModel([]), tools=[read_log], components=components) as agent:
        outcome = await agent.call_tool("read_log")
    assert outcome.response.text == "ok (2 times)"
    assert included == {"only-include": ["acme_tidy.py"]}
