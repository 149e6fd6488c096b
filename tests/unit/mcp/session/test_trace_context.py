"""The fields of `_meta` for the trace context, from hostile clients too."""

import pytest
from opentelemetry import context, propagate, trace

from toolbus.mcp.session.trace_context import enter_trace, with_trace

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def surroundings():
    """Leave the context as it was."""
    before = context.get_current()
    yield
    context.attach(before)


@pytest.mark.parametrize(
    "meta",
    [
        None,
        [],
        "x",
        {},
        {"traceparent": 7},
        {"traceparent": ""},
        {"traceparent": "x" * 100_000},
        {"traceparent": PARENT.replace("0af7", "ZZZZ")},
        {"traceparent": "00-" + "0" * 32 + "-b7ad6b7169203331-01"},
        {"tracestate": "a=b"},
    ],
)
def test_a_malformed_context_is_ignored(meta):
    params = {"name": "x", "_meta": meta}

    enter_trace(params)

    assert not trace.get_current_span().get_span_context().is_valid
    assert with_trace(params) is params


def test_a_context_goes_in_and_on():
    enter_trace({"_meta": {"traceparent": PARENT, "tracestate": "v=1", "baggage": "user=jane"}})

    fields = {}
    propagate.inject(fields)
    assert fields == {"traceparent": PARENT, "tracestate": "v=1"}
    given = {"name": "x", "_meta": {"mine": [1]}}
    assert with_trace(given) == {
        "name": "x",
        "_meta": {"mine": [1], "traceparent": PARENT, "tracestate": "v=1"},
    }
    assert given == {"name": "x", "_meta": {"mine": [1]}}
