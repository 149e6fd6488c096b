"""OpenTelemetry: spans and metrics of runs, model calls and tool calls, from the bus."""
