"""What `specs` should not mention of `toolbus.tools.calls.table`: that it is whole."""

import ast
import inspect
import re
import textwrap
from typing import get_args

import pytest

from toolbus.events.call_values import ToolStatus
from toolbus.tools.calls import table
from toolbus.tools.calls.call import CallInProgress
from toolbus.tools.calls.gated_call import GatedCall
from toolbus.tools.calls.table import ENDS, GATED_TRANSITIONS, TRANSITIONS, Signal, State

# Ends that come from outside, whatever the state.
OUTSIDE = {"cancelled", "interrupted"}


def returned(kind, function):
    """Return the signals that *function* returns, and those of the methods it returns from."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    texts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            texts |= signals(kind, function, node.value)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "signal":
            texts |= signals(kind, function, node.value)
    return texts


def signals(kind, function, value):
    """Return the signals that the expression *value*, in *function* of *kind*, may have."""
    match value:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.IfExp(body=body, orelse=other):
            return signals(kind, function, body) | signals(kind, function, other)
        case ast.Await(value=awaited):
            return signals(kind, function, awaited)
        case ast.Call(func=ast.Attribute(attr="_fail"), args=[ast.Constant(value=text), *_]):
            return {text}
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name)):
            return returned(kind, getattr(CallInProgress, name))
        case ast.Call(func=ast.Attribute(attr=name)):
            return returned(kind, getattr(kind, name))
    return set()


KINDS = ((CallInProgress, TRANSITIONS), (GatedCall, GATED_TRANSITIONS))


@pytest.mark.parametrize(("kind", "transitions"), KINDS)
def test_every_state_has_a_row_and_a_step(kind, transitions):
    assert kind.transitions is transitions
    assert set(transitions) == set(kind.steps)


@pytest.mark.parametrize(("kind", "transitions"), KINDS)
def test_every_signal_of_a_step_is_in_the_table_and_no_other(kind, transitions):
    for state, step in kind.steps.items():
        method = getattr(kind, step.__name__)
        assert returned(kind, method) == set(transitions[state])


def test_a_gate_adds_to_the_table_and_changes_nothing():
    assert tuple(GATED_TRANSITIONS) == get_args(State)
    assert "asking" not in TRANSITIONS
    for state, row in TRANSITIONS.items():
        assert row.items() <= GATED_TRANSITIONS[state].items()


def test_every_signal_is_used():
    assert {each for row in GATED_TRANSITIONS.values() for each in row} == set(get_args(Signal))


def test_every_state_and_every_end_can_be_reached():
    reached, new = set(), {"requested"}
    while new:
        reached |= new
        after = {after for state in new for after in GATED_TRANSITIONS.get(state, {}).values()}
        new = after - reached

    assert reached == set(get_args(State)) | set(get_args(ToolStatus)) - OUTSIDE


def test_an_end_is_no_state():
    assert set(get_args(ToolStatus)) == ENDS
    assert not ENDS & set(GATED_TRANSITIONS)


def test_the_drawn_tables_are_the_code():
    plain, gated = table.__doc__.split("A runner with a gate")

    assert drawn(plain) == rows_of(TRANSITIONS)
    assert drawn(plain) | drawn(gated) == rows_of(GATED_TRANSITIONS)


def drawn(text):
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (\*?)(\w+)\3 \|$", text, re.MULTILINE)
    return set(rows[1:])


def rows_of(transitions):
    return {
        (state, signal, "*" if after in ENDS else "", after)
        for state, row in transitions.items()
        for signal, after in row.items()
    }
