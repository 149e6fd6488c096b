"""What `specs` should not mention of `toolbus.tools.calls.table`: that it is whole."""

import ast
import inspect
import re
import textwrap
from typing import get_args

from toolbus.events.call_values import ToolStatus
from toolbus.tools.calls import table
from toolbus.tools.calls.call import CallInProgress
from toolbus.tools.calls.table import ENDS, TRANSITIONS, Signal, State

# Ends that come from outside, whatever the state.
OUTSIDE = {"cancelled", "interrupted"}


def returned(function):
    """Return the texts that *function* returns, and those of the functions it returns from."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    texts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            for part in ast.walk(node.value):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    texts.add(part.value)
                if isinstance(part, ast.Call):
                    texts |= returned(getattr(CallInProgress, part.func.attr))
    return texts


def test_every_state_has_a_row_and_a_step():
    assert tuple(TRANSITIONS) == get_args(State)
    assert tuple(CallInProgress.steps) == get_args(State)


def test_every_signal_of_a_step_is_in_the_table_and_no_other():
    for state, step in CallInProgress.steps.items():
        assert returned(step) - set(get_args(ToolStatus)) <= set(TRANSITIONS[state])
        assert set(TRANSITIONS[state]) <= returned(step)


def test_every_signal_is_used():
    assert {one for row in TRANSITIONS.values() for one in row} == set(get_args(Signal))


def test_every_state_and_every_end_can_be_reached():
    reached, new = set(), {"requested"}
    while new:
        reached |= new
        new = {after for state in new for after in TRANSITIONS.get(state, {}).values()} - reached

    assert reached == set(get_args(State)) | set(get_args(ToolStatus)) - OUTSIDE


def test_an_end_is_no_state():
    assert set(get_args(ToolStatus)) == ENDS
    assert not ENDS & set(TRANSITIONS)


def test_the_drawn_table_is_the_code():
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (\*?)(\w+)\3 \|$", table.__doc__, re.MULTILINE)

    assert rows[1:] == [
        (state, signal, "*" if after in ENDS else "", after)
        for state, row in TRANSITIONS.items()
        for signal, after in row.items()
    ]
