"""Hypothesis strategies for what handlers meet: records, values of events, calls, hostile texts.

Whatever takes *texts* draws from that strategy wherever somebody says something;
`messages(hostile_texts())` draws messages of people who mean ill.
"""

from toolbus.testing.fitting import values_for
from toolbus.testing.records import (
    assistant_messages,
    contents,
    json_objects,
    json_values,
    messages,
    parts,
    scopes,
    tool_calls,
    tool_responses,
    tool_specs,
    usages,
)
from toolbus.testing.texts import HOSTILE_TEXTS, hostile_texts, texts
from toolbus.testing.values import (
    model_deltas,
    model_failures,
    model_replies,
    model_requests,
    run_failures,
    run_results,
    run_starts,
    tool_call_failures,
    tool_call_outcomes,
    tool_call_persists,
    values_of,
)

__all__ = [
    "HOSTILE_TEXTS",
    "assistant_messages",
    "contents",
    "hostile_texts",
    "json_objects",
    "json_values",
    "messages",
    "model_deltas",
    "model_failures",
    "model_replies",
    "model_requests",
    "parts",
    "run_failures",
    "run_results",
    "run_starts",
    "scopes",
    "texts",
    "tool_call_failures",
    "tool_call_outcomes",
    "tool_call_persists",
    "tool_calls",
    "tool_responses",
    "tool_specs",
    "usages",
    "values_for",
    "values_of",
]
