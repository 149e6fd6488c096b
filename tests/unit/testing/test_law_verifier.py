"""What `specs` should not mention of how one call is tried."""

import os
import random
import sys
from pathlib import Path

import pytest

from toolbus.errors import LawBroken
from toolbus.messages.immutable import FrozenDict
from toolbus.testing.argument_lookups import ArgumentLookups, ObservedArguments
from toolbus.testing.law_verifier import Invocation, LawVerifier, NoResult, differ
from toolbus.testing.stopwatch import Stopwatch


def perform(run, *without, given=None):
    verifier = LawVerifier("it", without, Stopwatch(10))
    return verifier.perform(Invocation("call", run, given or {}))


def test_none_is_a_result_like_others():
    assert perform(lambda: None) is None
    assert not differ(None, None)
    assert differ(None, 0)
    assert differ(1, 1.0)


def test_what_is_left_out_ends_the_verifier():
    with pytest.raises(NoResult):
        perform(lambda: 1 / 0, "raises-nothing")


def test_leaving_the_program_is_an_error_too():
    with pytest.raises(LawBroken, match=r"call raised SystemExit: 3 at test_law_verifier\.py:"):
        perform(lambda: sys.exit(3))


def test_a_missing_argument_is_told_of_where_it_was_asked_for():
    arguments = ObservedArguments.of(FrozenDict(), ArgumentLookups(), ())

    with pytest.raises(LawBroken, match=r"call raised KeyError: 'path' at test_law_verifier\.py:"):
        perform(lambda: arguments["path"])


def test_interrupting_is_none():
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform(interrupt)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("the state of `random`", lambda: random.seed(1)),
        ("os.environ", lambda: os.environ.update(TOOLBUS_TEST="1")),
        ("the working directory", lambda: os.chdir("/")),
        ("sys.path", lambda: sys.path.append("/nowhere")),
    ],
)
def test_globals_are_watched(name, change, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.chdir(Path.cwd())

    with pytest.raises(LawBroken, match=f"call changed {name}"):
        perform(change)


def test_values_without_an_encoding_are_left_alone():
    value = object()

    assert perform(lambda: None, given={"value": value}) is None
