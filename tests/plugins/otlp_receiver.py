"""A receiver of OTLP over HTTP on the loopback: what it got, as plain values."""

import gzip
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_REQUESTS = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
}


class Received:
    """The spans, the names of metrics, the service names, the headers and the raw bytes."""

    def __init__(self):
        self.spans, self.metrics, self.services, self.headers, self.raw = [], [], [], [], []

    def take(self, path, headers, data):
        request = _REQUESTS[path].FromString(data)
        self.headers.append(dict(headers))
        self.raw.append(data)
        if path == "/v1/traces":
            for resource in request.resource_spans:
                self.services += [
                    each.value.string_value
                    for each in resource.resource.attributes
                    if each.key == "service.name"
                ]
                self.spans += [span for each in resource.scope_spans for span in each.spans]
        else:
            self.metrics += [
                metric.name
                for resource in request.resource_metrics
                for scope in resource.scope_metrics
                for metric in scope.metrics
            ]

    def wait_for(self, name, seconds=20):
        """Return the first span called *name*."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for span in self.spans:
                if span.name == name:
                    return span
            time.sleep(0.02)
        raise AssertionError([span.name for span in self.spans])


def attributes_of(span):
    return {each.key: each.value.string_value for each in span.attributes}


@contextmanager
def otlp_receiver():
    """Yield the address of a receiver, and what it gets."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            data = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                data = gzip.decompress(data)
            received.take(self.path, self.headers, data)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
