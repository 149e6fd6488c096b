"""The trace context in `_meta`, from a client's call to the server's, if a component makes spans.

MCP reserves `traceparent` and `tracestate` in `_meta` for the W3C trace context:
https://modelcontextprotocol.io/seps/414-request-meta.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol, runtime_checkable

_META = "_meta"
_FIELDS = ("traceparent", "tracestate")


@runtime_checkable
class SpanMaker(Protocol):
    """A component that makes spans, and has loaded OpenTelemetry for that."""

    makes_spans: bool


def enter_trace(params: dict[str, Any]) -> None:
    """Put the spans of this task below the span that the client names in *params*."""
    meta = _meta_of(params)
    fields = {key: meta[key] for key in _FIELDS if isinstance(meta.get(key), str)}
    if fields:
        _api("context").attach(_api("propagate").extract(fields))


def with_trace(params: dict[str, Any]) -> dict[str, Any]:
    """Return *params* with the current span, the same object if it names that already."""
    fields: dict[str, str] = {}
    _api("propagate").inject(fields)
    meta = _meta_of(params)
    if fields.items() <= meta.items():
        return params
    return {**params, _META: {**meta, **fields}}


def _meta_of(params: dict[str, Any]) -> dict[str, Any]:
    meta = params.get(_META)
    return meta if isinstance(meta, dict) else {}


def _api(module: str) -> Any:
    # Not imported: a proxy without such a component does not need OpenTelemetry.
    return sys.modules[f"opentelemetry.{module}"]
