"""Measure the cost of toolbus beside plain loops, other libraries and its own older versions."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import against, environment, report, targets, verdicts
from benchmarks.approvals import REQUIREMENTS as APPROVALS
from benchmarks.environment import ROOT, Environment, say
from benchmarks.peers import PEERS
from benchmarks.redaction import REQUIREMENTS

FILES = (
    "observe_sync",
    "observe_async",
    "dispatch",
    "transform",
    "records",
    "tool_call",
    "append",
    "chain",
    "postgres",
    "ledger",
    "growth",
    "shared_bus",
    "reading",
    "import",
    "tap",
    "opentelemetry",
    "replay",
    "proxy",
    "relay",
    "policy",
    "redaction",
    "personal",
    "shortening",
    "quotes",
    "labels",
    "store_calls",
    "streaming",
    "hooks",
    "bridges",
    "approvals",
    "ui",
    "durable",
)
"""The files `bench_*.py`, in the order of their tables."""

UNTIMED = {"approvals"}
"""Files whose tables hold no times, so that one process is enough."""


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    options = _parser().parse_args()
    if options.against:
        return _compare(options)
    if options.commands:
        os.environ["TOOLBUS_COMMANDS"] = str(Path(options.commands).resolve())
    files = tuple(options.only or FILES)
    if options.once or options.no_peers:
        where = environment.here()
    else:
        peers = [one.requirement for one in PEERS if one.requirement]
        wanted = (*peers, *REQUIREMENTS, *APPROVALS, *environment.SERVER)
        where = environment.prepare(wanted, anew=options.anew)
    tables: list[dict[str, Any]] = []
    versions: dict[str, str] = {}
    for file in files:
        runs = []
        processes = 1 if options.once or file in UNTIMED else options.processes
        for number in range(processes):
            say(f"{file}: process {number + 1} of {processes}")
            runs.append(_fresh(where, file, once=options.once))
        tables += report.merge(runs)
        versions |= runs[0]["versions"]
    result = {
        "machine": report.machine(),
        "versions": versions,
        "processes": 1 if options.once else options.processes,
        "absent": where.absent,
        "tables": tables,
        "targets": [] if options.once else targets.judge(tables),
    }
    _show(result, options)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--once", action="store_true", help="run once: no peers, no times")
    parser.add_argument("--only", action="append", choices=FILES, help="this file; repeatable")
    parser.add_argument("--processes", type=int, default=3, help="fresh processes (%(default)s)")
    parser.add_argument("--no-peers", action="store_true", help="only what is installed here")
    parser.add_argument("--anew", action="store_true", help="install the newest peers first")
    parser.add_argument("--commands", metavar="FILE", help="labelled commands, for `policy`")
    parser.add_argument(
        "--against",
        metavar="TREEISH",
        help="compare with this commit, branch or tag instead: both are built and installed apart,"
        " and their rows run in turns (0.1.0 is dcfb147)",
    )
    parser.add_argument(
        "--rows",
        action="append",
        metavar="WORD",
        help="with --against: rows whose names hold WORD; repeatable",
    )
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="write JSON")
    return parser


def _compare(options: argparse.Namespace) -> int:
    """Compare with the version that the command line names; return the exit code."""
    rows = against.compare(options.against, against.chosen(options.rows), once=options.once)
    result = {"machine": report.machine(), **against.as_json(options.against, rows)}
    if options.json:
        _write(result, options.json)
    if options.json != "-":
        print(", ".join(result["machine"].values()))
        against.print_compared(options.against, rows)
    return 0


def _fresh(where: Environment, file: str, *, once: bool) -> dict[str, Any]:
    """Run one file in a fresh process and return what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "figures.json")
        command = [where.python, "-m", "benchmarks.worker", file, str(out)]
        if once:
            command.append("--once")
        # What peers print is no figure. And nobody's telemetry or tracing is to be measured.
        quiet = {**os.environ, "LANGSMITH_TRACING": "false", "OTEL_SDK_DISABLED": "true"}
        done = subprocess.run(  # noqa: S603 - our own command
            command,
            cwd=ROOT,
            env=quiet,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"bench_{file} failed:\n{done.stderr}")
        result: dict[str, Any] = json.loads(out.read_text("utf-8"))
        return result


def _show(result: dict[str, Any], options: argparse.Namespace) -> None:
    if options.json:
        _write(result, options.json)
    if options.json == "-":
        return
    if options.once:
        report.print_ran(result["tables"])
        return
    report.print_machine(result["machine"], result["versions"], result["absent"])
    for table in result["tables"]:
        show = verdicts.print_verdicts if table["unit"] == "verdict" else report.print_table
        show(table)
    report.print_verdicts(result["targets"])


def _write(result: dict[str, Any], to: str) -> None:
    text = json.dumps(result, indent=2, ensure_ascii=False)
    if to == "-":
        print(text)
    else:
        Path(to).write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
