"""What the library must reach, in the words of the tables."""

from __future__ import annotations

from typing import Any, NamedTuple

from toolbus.bridges.frameworks import FRAMEWORKS

OURS, LOOP = "toolbus", "the loop"


Cell = tuple[str, str]
"""Row and contender."""


class Target(NamedTuple):
    """A bound on the cell *over* of a table, or on its ratio to the cell *under*."""

    text: str
    table: str
    over: Cell
    under: Cell | None
    bound: str
    limit: float
    aim: float | None = None


def _against_loop(verb: str, name: str, *limits: tuple[str, float, float | None]) -> list[Target]:
    return [
        Target(f"{verb}, {row}, against the loop", name, (row, OURS), (row, LOOP), "≤", limit, aim)
        for row, limit, aim in limits
    ]


def _faster(name: str, row: str, *peers: tuple[str, float]) -> list[Target]:
    return [
        Target(f"{name}, {row}: {peer} against us", name, (row, peer), (row, OURS), "≥", limit)
        for peer, limit in peers
    ]


_SYNC = (
    ("1 handlers", 3.6, 3.3),
    ("10 handlers", 1.8, 1.7),
    ("100 handlers", 1.5, None),
)
_AWAITED = (
    ("1 handlers", 2.4, None),
    ("10 handlers", 1.6, None),
    ("100 handlers", 1.4, None),
)
_OVER = "over bare await"
_EXECUTORS = (
    "strands executor",
    "pydantic-ai",
    "langgraph tool node",
    "fastmcp call_tool",
    "adk function flow",
    "openai-agents",
)

_PROXY, _JUDGED, _PIPED = "toolbus proxy", "3 adapters, guard", ("p50", "byte forwarder")
_SHIPPED = "redaction, truncation, guard"

TARGETS: tuple[Target, ...] = (
    *_against_loop("bus.do", "observe_sync", *_SYNC),
    *_against_loop("bus.apply_sync", "apply_sync", *_SYNC),
    *_against_loop("await bus.apply", "apply", *_AWAITED),
    *_faster(
        "observe_sync",
        "10 handlers",
        ("blinker", 2),
        ("psygnal", 2),
        ("pluggy", 2),
        ("pyee", 2),
        ("django", 2),
        ("strands", 2),
    ),
    *_faster(
        "observe_async", "10 handlers", ("strands", 3.2), ("google-adk", 2), ("aiosignal", 1.05)
    ),
    *_faster(
        "transform",
        "10 handlers",
        ("fastmcp", 12),
        ("langchain raw", 2.5),
        ("langchain as shipped", 300),
    ),
    Target(
        "with_tool_response against msgspec's replace",
        *("records", ("replace", OURS), ("replace", "msgspec"), "≤", 1.6),
    ),
    *[
        Target(
            f"one tool call: {peer} against us with ledger and three adapters",
            *("tool_call", (_OVER, peer), (_OVER, "toolbus, ledger, 3 adapters"), "≥", 1.0),
        )
        for peer in _EXECUTORS
    ],
    *[
        Target(
            f"{verb} at 10,000 handlers against 10",
            *("growth_handlers", ("10,000 handlers", verb), ("10 handlers", verb), "≤", 2.0),
        )
        for verb in ("subscribe", "cancel")
    ],
    Target(
        "1,000,000 messages against their records' own size",
        *("growth_memory", ("1,000,000 messages", "ratio"), None, "≤", 1.3),
    ),
    Target(
        "commits for 64 concurrent appends",
        *("append_commits", ("64 sessions", OURS), None, "≤", 4),
    ),
    Target(
        "64 sessions on PostgreSQL: microseconds of an append against bare psycopg",
        *(
            "postgres",
            ("64 sessions", OURS),
            ("64 sessions", "psycopg, the same rows and commits"),
            "≤",
            2.0,
        ),
    ),
    Target(
        "1 session on PostgreSQL: microseconds of an append against bare psycopg",
        *(
            "postgres",
            ("1 session", OURS),
            ("1 session", "psycopg, the same rows and commits"),
            "≤",
            3.0,
        ),
    ),
    Target(
        "replay with three adapters against decoding and encoding",
        *("replay", ("one message", OURS), ("one message", "decode and encode"), "≤", 3.0),
    ),
    *[
        Target(
            f"append throughput with the ledger, {row}: microseconds against those without",
            *("ledger", (row, "with ledger"), (row, "without ledger"), "≤", 4 / 3),
        )
        for row in ("1 session", "64 sessions")
    ],
    *[
        Target(
            f"{verb}: 1,000,000 messages against 10,000",
            *("reading", ("1,000,000 messages", verb), ("10,000 messages", verb), "≤", 2.0),
        )
        for verb in (
            *("show --last 20", "show --from", "explain a message", "explain a call"),
            *("page, first part", "page, middle part", "page, last part"),
        )
    ],
    *[
        Target(
            f"a call, {name}, against a byte forwarder", "proxy", ("p50", name), _PIPED, "≤", most
        )
        for name, most in ((_PROXY, 1.5), (_JUDGED, 2.0), (_SHIPPED, 3.5))
    ],
    *[
        Target(
            f"what FastMCP's proxy adds to a call, against {name}",
            *("proxy", ("over no proxy", "fastmcp proxy"), ("over no proxy", name), "≥", 5.0),
        )
        for name in (_PROXY, _JUDGED)
    ],
    Target(
        "what a relay adds to a call, against a TCP forwarder",
        *("relay", ("over no proxy", "toolbus relay"), ("over no proxy", "TCP forwarder")),
        *("≤", 2.0),
    ),
    *[
        Target(
            f"the start, {name}, against a forwarder's",
            *("proxy_start", ("first answer", name), ("first answer", "byte forwarder")),
            *("≤", 1.5),
        )
        for name in (_PROXY, _JUDGED)
    ],
    *[
        Target(
            f"a {work} by the bridge into {name}, against its own hook",
            *(f"bridge_{work}", (name, "bridge, with ledger"), (name, "own hook"), "≤", 3.0),
        )
        for name in FRAMEWORKS
        for work in ("rewrite", "denial", "redaction")
    ],
    *[
        Target(f"redaction, {row}, %", "redaction", (row, OURS), None, "≤", limit)
        for row, limit in (
            ("missed, first half", 5.0),
            ("reported half", 5.0),
            ("taken, look-alikes", 10.0),
        )
    ],
    *[
        Target(f"redaction, {text}, %", "redaction_everyday", (row, OURS), None, "≤", limit)
        for text, row, limit in (
            ("everyday contexts missed", "everyday", 15.0),
            ("formats beside neighbours missed", "formats", 2.0),
            ("look-alikes taken", "lookalikes", 1.0),
            ("paths and ARNs taken", "paths and ARNs", 0.0),
        )
    ],
    *[
        Target(
            f"redaction, alarms in a MB of {name}",
            *("redaction_alarms", (f"{name}, per MB", OURS), None, "≤", limit),
        )
        for name, limit in (("python", 0.2), ("javascript", 0.2), ("search", 0.1), ("logs", 0.1))
    ],
    *[
        Target(
            f"redaction, {text}, against betterleaks",
            *("redaction_speed", (f"{text}, per second", OURS)),
            *((f"{text}, per second", "betterleaks"), "≥", limit),
        )
        for text, limit in (("clean text", 2.0), ("with a few secrets", 1.3))
    ],
    Target(
        "redaction, the first 10 kB, against importing re2",
        *("redaction_start", ("first 10 kB", OURS)),
        *(("first 10 kB", "import re2"), "≤", 3.0),
    ),
    *[
        Target(
            f"a streamed piece, {wire}: what we add, against the SDK's typed stream",
            *("streaming", (wire, "added"), (wire, "SDK types"), "≤", 0.5),
        )
        for wire in ("chat", "messages")
    ],
    *[
        Target(
            f"a hook's event, {name}, {row}, against the p50 of one of socket and json",
            *("hooks", (row, name), ("p50", "socket and json"), "≤", limit),
        )
        for name, row, limit in (
            ("with a worker", "p50", 3.0),
            ("with a worker", "p95", 6.0),
            ("without a worker", "p50", 12.0),
        )
    ],
    *[
        Target(f"{name}, {row}: ms beyond the bare SELECT", "ui", (row, name), None, "≤", 300.0)
        for row in (
            *("1 sessions of 1,000,000", "1,000 sessions of 1,000", "100,000 sessions of 10"),
            "PostgreSQL, 100,000 sessions",
        )
        for name in ("first list, added", "list while counting, added", "list, added")
    ],
    Target("a tap, µs per idle handler", "tap", ("per idle handler", "tap"), None, "≤", 3.0),
)


def judge(tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each target with the figure measured; *reached* is None if there is no figure."""
    cells = {
        (table["name"], figure["row"], figure["contender"]): figure["value"]
        for table in tables
        for figure in table["figures"]
    }
    measured = {table["name"] for table in tables}
    verdicts = []
    for one in TARGETS:
        if one.table not in measured:
            continue
        value = cells.get((one.table, *one.over))
        if one.under is not None:
            under = cells.get((one.table, *one.under))
            value = None if value is None or not under else value / under
        verdicts.append({**one._asdict(), "measured": value, "reached": _reached(one, value)})
    return verdicts


def _reached(target: Target, value: float | None) -> bool | None:
    if value is None:
        return None
    return value <= target.limit if target.bound == "≤" else value >= target.limit
