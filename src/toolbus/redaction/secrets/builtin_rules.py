"""Our own rules: formats that the published set leaves out, and the shapes that secrets stand in.

Each was added because examples of the half that we develop with were missed without it; how much
each group brings stands in the table of `benchmarks/bench_redaction.py`.
"""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.assignments import ASSIGNMENTS
from toolbus.redaction.secrets.builtin.known_formats import KNOWN_FORMATS

BUILTIN_RULES = (*KNOWN_FORMATS, *ASSIGNMENTS)
