"""The component that shows its host's runs, model calls and tool calls to OpenTelemetry."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from hashlib import blake2b
from typing import Any

from toolbus.components.components import AgentComponent, Host
from toolbus.errors import RegistrationError
from toolbus.events import catalogue as events
from toolbus.otel import names
from toolbus.settings.extras import needs_extra
from toolbus.settings.user_key import value_key

try:
    from opentelemetry import context, metrics, propagate, trace
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider, export, id_generator

    from toolbus.otel.spans import SpanSink
except ImportError as error:
    msg = needs_extra("spans and metrics need the OpenTelemetry SDK", "otel")
    raise ImportError(msg, name=error.name) from error

FLUSH_SECONDS = 1.0  # For the last spans, and the last metrics; then they are lost.
_PERSIST = (events.TOOL_CALL_PERSIST_BEFORE, events.TOOL_CALL_PERSIST_AFTER)


class SessionIds(id_generator.RandomIdGenerator):
    """Ids by which a *session* has one trace, in all processes with the same *key*."""

    def __init__(self, key: bytes = b"") -> None:
        self.session, self._key = "", key[:64]

    def generate_trace_id(self) -> int:
        """Return the trace of the session."""
        digest = blake2b(self.session.encode(), key=self._key, digest_size=16)
        return int.from_bytes(digest.digest())


class OpenTelemetry(AgentComponent):
    """Sends spans and metrics to a collector; see `toolbus guide opentelemetry`.

    Args:
        endpoint: the collector's address for OTLP over HTTP, such as `http://localhost:4318`; by
            default the program's own providers, else the variables `OTEL_EXPORTER_OTLP_…`.
        headers: HTTP headers; each value is `env:NAME`, for the value of the variable NAME.
        service_name: the name of this service, by default that of the variables.
        texts: send prompts, answers, arguments and results, as redacted for the store.
        metrics: send metrics.
    """

    personal_settings = ("endpoint", "headers", "texts")
    value_key: bytes | None = None
    makes_spans = True

    def __init__(
        self,
        *,
        endpoint: str = "",
        headers: dict[str, str] | None = None,
        service_name: str = "",
        texts: bool = False,
        metrics: bool = True,
        enabled: bool | None = None,
    ) -> None:
        super().__init__(enabled=enabled)
        if wrong := [name for name, value in (headers or {}).items() if value[:4] != "env:"]:
            raise RegistrationError("OpenTelemetry", f"header {wrong[0]!r}: expected 'env:NAME'")
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise RegistrationError("OpenTelemetry", f"expected http://…, got {endpoint!r}")
        self._endpoint, self._headers, self._service = endpoint, headers or {}, service_name
        self.texts, self._measures, self.ids = texts, metrics, SessionIds()
        self._providers: tuple[TracerProvider, MeterProvider] | None = None

    def subscribe(self, host: Host) -> None:
        """Tap the host's bus, for spans below the span that the environment names, if any."""
        tracers, meters = self.providers()
        tracer = tracers.get_tracer("toolbus", attributes={"conventions": names.CONVENTIONS})
        instruments = _instruments(meters.get_meter("toolbus"))
        sink = SpanSink(tracer, instruments, self, host.scope.agent_id)
        skipped = (events.MODEL_CALL_DELTA, *(() if self.texts else _PERSIST))
        self._undo.callback(sink.close)
        self._undo.callback(host.bus.tap(sink, values=True, digests=False, without=skipped))
        if not trace.get_current_span().get_span_context().is_valid:
            variables = {name.lower(): value for name, value in os.environ.items()}
            context.attach(propagate.extract(variables, context.get_current()))

    async def close(self) -> None:
        """End all spans, and send the rest, for a bounded time."""
        self.teardown()
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        atexit.unregister(self._end)
        providers, self._providers = self._providers or (), None
        threads = [threading.Thread(target=each.shutdown, daemon=True) for each in providers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(FLUSH_SECONDS)

    def providers(self) -> tuple[trace.TracerProvider, metrics.MeterProvider]:
        """Return the program's providers, or new providers; a subclass may return others."""
        tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
        if self._endpoint or not isinstance(tracers, TracerProvider):
            tracers, meters = self._providers = self._providers or self._new_providers()
        return tracers, meters

    def _new_providers(self) -> tuple[TracerProvider, MeterProvider]:
        atexit.register(self._end)  # For a program that closes nothing.
        self.ids = SessionIds(self.value_key or value_key(durable=True) or b"")
        headers = {name: os.environ.get(value[4:], "") for name, value in self._headers.items()}
        resource = Resource.create({"service.name": self._service} if self._service else {})
        address = self._endpoint and f"{self._endpoint.rstrip('/')}/v1/"
        tracers = TracerProvider(None, resource, shutdown_on_exit=False, id_generator=self.ids)
        spans = OTLPSpanExporter(address and f"{address}traces", headers=headers)
        tracers.add_span_processor(export.BatchSpanProcessor(spans))
        values = OTLPMetricExporter(address and f"{address}metrics", headers=headers)
        readers = [PeriodicExportingMetricReader(values)] if self._measures else []
        return tracers, MeterProvider(readers, resource, shutdown_on_exit=False)


def _instruments(meter: metrics.Meter) -> dict[str, Any]:
    buckets: Any = {"explicit_bucket_boundaries_advisory": names.BUCKETS}
    made = {key: meter.create_histogram(key, "s", **buckets) for key in names.DURATIONS.values()}
    return made | {key: meter.create_counter(key, unit) for key, unit in names.COUNTERS.items()}
