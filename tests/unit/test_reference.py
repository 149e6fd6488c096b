"""What `python -m pydoc` says of public names: an example that runs, and what may be raised.

The names of `toolbus` itself are in `specs/guide.md`.
"""

import asyncio
import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import toolbus
from toolbus import events

ROOMS = (
    "toolbus.approvals",
    "toolbus.config",
    "toolbus.events",
    "toolbus.models",
    "toolbus.store",
    "toolbus.testing",
)

WITHOUT = {
    "Configuration": "what `read` returns, told there",
    "ConfiguredComponent": "a part of a `Configuration`",
    "Entry": "a part of a `Configuration`",
    "LawBroken": "an error that is only raised",
    "LedgerSnapshot": "made by the pytest plugin alone",
    "by_name": "its one line is the example",
    "find": "tells where a file would be found here",
    "read": "as `load`, with all else that the file says",
    "read_nearest": "as `read`, of what is in force here",
}
"""Public names without an example, and why."""

OUTSIDE = {
    "AnthropicModel": "a provider and its key",
    "OpenAIModel": "a provider and its key",
    "PostgresStore": "a server",
    "Webhook": "a server",
}
"""Examples that are only compiled, since they need something that is not there."""
SLOW = {"check_adapter", "check_guard", "check_handler"}
"""Names whose examples try a hundred cases."""


def public_names():
    found = {}
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            if (inspect.isclass(value) or inspect.isroutine(value)) and not name.startswith("_"):
                ours = getattr(value, "__module__", "").startswith("toolbus.")
                if ours and name != "lazy_exports" and name not in toolbus.__all__:
                    found.setdefault(name, value)
    return found


NAMES = public_names()


def world():
    """Return what an example may use without saying so: the public names."""
    face = {name: getattr(toolbus, name) for name in toolbus.__all__}
    return {**face, **NAMES, "asyncio": asyncio, "events": events, "Path": Path}


def examples_of(name):
    return doctest.DocTestParser().get_examples(inspect.getdoc(NAMES[name]) or "", name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.full] if name in SLOW else [])
        for name in sorted(NAMES)
    ],
)
def test_a_public_name_is_told_with_an_example(name, tmp_path, monkeypatch):
    text, examples = inspect.getdoc(NAMES[name]), examples_of(name)
    monkeypatch.chdir(tmp_path)

    assert text, f"{name} has no docstring"
    assert bool(examples) is not (name in WITHOUT), name
    if name in OUTSIDE:
        for example in examples:
            compile(example.source, name, "single")
        return
    test = doctest.DocTest(examples, {**world(), name: NAMES[name]}, name, None, 0, text)
    told = []
    doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    assert not told, "".join(told)


def test_exceptions_to_that_are_still_some():
    assert set(WITHOUT) | set(OUTSIDE) <= set(NAMES)


def test_what_may_be_raised_is_said():
    """A public function or method that raises an error of ours by name says so."""
    silent = []
    for name, value in NAMES.items():
        for function in vars(value).values() if inspect.isclass(value) else (value,):
            if not inspect.isfunction(function) or function.__name__.startswith("_"):
                continue
            source = inspect.getsource(function)
            # What is closed is told once, by the protocol of stores.
            raised = set(re.findall(r"raise (\w+Error|MessageDenied)\(", source)) - {"ClosedError"}
            text = f"{inspect.getdoc(function) or ''} {inspect.getdoc(value) or ''}"
            silent += [f"{name}.{function.__name__}: {one}" for one in raised if one not in text]
    assert silent == []


def test_every_event_is_told_where_events_are():
    told = toolbus.events.__doc__
    named = {name for name, value in vars(events).items() if value in events.CATALOGUE}

    assert set(re.findall(r"^`([A-Z_]+)` ", told, re.MULTILINE)) == named
