"""The import of psycopg, with an error that names the extra."""

from __future__ import annotations

from toolbus.settings.extras import needs_extra

try:
    import psycopg
except ImportError as error:
    reason = needs_extra("a store on PostgreSQL needs psycopg 3 and libpq", "postgres")
    raise ImportError(reason, name="psycopg") from error

__all__ = ["psycopg"]
