"""Spans and metrics of OpenTelemetry from the ledger's tap."""
