"""Our own rules: formats that the published set leaves out, and the shapes that secrets stand in.

Each was added because examples of the half that we develop with were missed without it; how much
each group brings stands in the table of `benchmarks/bench_redaction.py`.
"""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.commands import COMMANDS
from toolbus.redaction.secrets.builtin.databases import DATABASES
from toolbus.redaction.secrets.builtin.grammar import NAME, BuiltinRule
from toolbus.redaction.secrets.builtin.known_formats import KNOWN_FORMATS
from toolbus.redaction.secrets.builtin.pairs import VALUES_FIRST
from toolbus.redaction.secrets.builtin.prose import PROSE
from toolbus.redaction.secrets.builtin.stored_secrets import STORED_SECRETS
from toolbus.redaction.secrets.builtin.tables import TABLES
from toolbus.redaction.secrets.builtin.web import WEB

NAMED = BuiltinRule("assigned-secret", rf"(?i){NAME}", loose=True, reader="assigned")
"""Names are sought in one pass; what stands behind each, `assigned` reads."""

BUILTIN_RULES = (
    *KNOWN_FORMATS,
    *STORED_SECRETS,
    *DATABASES,
    *COMMANDS,
    *WEB,
    NAMED,
    *VALUES_FIRST,
    *PROSE,
    *TABLES,
)
"""Of two that find the same the first gives the name."""
