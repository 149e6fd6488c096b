"""What a ledger costs: an entry per handler, and a digest of each value that changed."""

from __future__ import annotations

from collections import deque

from benchmarks.handlers import functions
from benchmarks.harness import Contender, Figure, Rig, table
from toolbus import EventBus
from toolbus.bus.ledger.trace import Digests
from toolbus.events import MESSAGE_APPEND_BEFORE
from toolbus.messages import ToolMessage, ToolResponse

BARE, TAPPED = "no tap", "tap"
FEW, MANY = 1, 65
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)


@table("µs", ours=TAPPED, baseline=None)
def bench_tap(rig: Rig) -> None:
    """A tap costs at most 3 µs per handler that changed nothing."""
    for count in (FEW, MANY):
        builds = [
            (BARE, lambda count=count: dispatch(BARE, count)),
            (TAPPED, lambda count=count: dispatch(TAPPED, count)),
        ]
        rig.race(f"{count} handlers", builds)
    if rig.once:
        return
    ns = {(one.row, one.contender): one.value or 0.0 for one in rig.figures}
    rig.figures = [Figure(row, name, value / 1e3) for (row, name), value in ns.items()]
    few, many = (
        ns[f"{count} handlers", TAPPED] - ns[f"{count} handlers", BARE] for count in (FEW, MANY)
    )
    # The slope: what a tap costs per dispatch, two digests of the value at least, is not in it.
    per_handler = (many - few) / (MANY - FEW)
    rig.put("per idle handler", TAPPED, per_handler / 1e3)
    rig.put("per dispatch", TAPPED, (few - per_handler) / 1e3)


@table("ns", ours="digest", baseline=None)
def bench_digest(rig: Rig) -> None:
    """A digest costs what encoding the value and hashing it cost."""
    for size in SIZES[: 2 if rig.once else None]:
        rig.race(f"{size:,} bytes", [("digest", lambda size=size: digest(size))], rounds=20)


def dispatch(name: str, count: int) -> Contender:
    """Build `bus.apply_sync` with *count* handlers without an opinion."""
    bus = EventBus()
    for handler in functions(count):
        bus.on(MESSAGE_APPEND_BEFORE, handler)
    if name == TAPPED:
        bus.tap(deque(maxlen=1_000).append)
    names = {"apply": bus.apply_sync, "EVENT": MESSAGE_APPEND_BEFORE, "value": _message(100)}
    lacks = "everything" if name == BARE else ""
    return Contender(name, "apply(EVENT, value)", names, lacks, count)


def digest(size: int) -> Contender:
    """Build the digest of a message with a text of *size* bytes."""
    names = {"digest": Digests().digest_and_size, "value": _message(size)}
    return Contender("digest", "digest(value)", names)


def _message(size: int) -> ToolMessage:
    said = ToolResponse.from_text("0123456789" * (size // 10))
    return ToolMessage(id="m-1", tool_call_id="c-1", tool_name="read", tool_response=said)
