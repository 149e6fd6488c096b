"""What pages of the guide say of the library's parts, held against these."""

import re
import tomllib
from importlib import import_module, metadata
from importlib.resources import files
from pathlib import Path

from toolbus import events
from toolbus.store.sqlite.schema import VERSION


def page(name):
    return files("toolbus.cli.guide").joinpath(f"{name}.md").read_text("utf-8")


def test_each_picture_of_the_page_is_there():
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", page("ui"))

    assert len(pictures) == 5
    for picture in pictures:
        assert files("toolbus.cli.guide").joinpath(picture).is_file()


def constant(event):
    return next(name for name, value in vars(events).items() if value is event)


def test_failures_has_every_event():
    text = page("failures")

    table = re.findall(r"^\| `([A-Z_]+)` \|", text, re.MULTILINE)
    observed = re.findall(r"`([A-Z_]{5,})`", text[: text.index("can only be observed")])
    transforms = [one for one in events.CATALOGUE if isinstance(one, events.TransformEvent)]
    assert table == [constant(event) for event in transforms]
    others = [constant(event) for event in events.CATALOGUE if event not in transforms]
    assert observed[-len(others) :] == others


def test_the_changelog_names_what_there_is():
    rows = re.findall(r"^\| .+ \| (.+) \|$", page("changelog"), re.MULTILINE)[1:]

    modules = [name for row in rows for name in re.findall(r"`(toolbus\.[\w.]+)`", row)]
    assert len(modules) >= 8
    for module in modules:
        import_module(module)


def test_components_are_those_that_we_ship():
    named = re.findall(
        r"^\| `([a-z-]+)` \| (?:`toolbus\[(\w+)\]`)? ?\|", page("components"), re.MULTILINE
    )
    ours = metadata.distribution("toolbus")
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]

    offered = [one.name for one in ours.entry_points if one.group == "toolbus.components"]
    assert sorted(name for name, _ in named) == sorted(offered)
    assert {extra for _, extra in named if extra} <= project["optional-dependencies"].keys()


def test_the_changelog_names_the_format_of_stores():
    newest = page("changelog").partition("\n## ")[2].partition("\n## ")[0]

    assert f"format {VERSION}." in newest
