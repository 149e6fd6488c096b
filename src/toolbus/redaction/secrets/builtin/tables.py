"""Values under or behind a list of names: tables, CSV, INSERT and COPY of SQL; see `columns`."""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.grammar import NAME, BuiltinRule

# Backticks, quotes and brackets stand around names in SQL.
_COLUMNS = rf"\([^()]*?{NAME}[^()]*\)"

TABLES = (
    BuiltinRule(
        "assigned-secret",
        rf"(?i)\binto\s+[^\s(]+\s*{_COLUMNS}\s*values\s*",
        loose=True,
        reader="insert",
    ),
    BuiltinRule(
        "assigned-secret",
        rf"(?i)\bcopy\s+[^\s(]+\s*{_COLUMNS}\s*from\s+stdin[^\n]*\n",
        loose=True,
        reader="copy",
    ),
)
