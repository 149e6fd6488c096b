"""The record of a session's earlier calls, for limits of rules: one JSON value.

    {"meters": {"fetches:calls": {"entries": [[1763800000.5, 1], …]}},
     "recent": {"fetches": {SESSION: ["3f2a…", …]}},
     "happened": {"tests-passed": "surely"},
     "folders": {"SESSION/TOOL": "/project/src"},
     "running": {"SESSION/CALL": {"since": 1763800000.5, "meters": [...], "named": {...},
                                  "counted": [...]}}}

A call is counted when it begins: an open question counts, a denied call does not. A call that waits
for a person is judged again when repeated, and still counted once: its first amounts are taken back
before that. Values known only at the end (time, bytes of the result, success) are added then. The
record is bounded; where entries are dropped, the rest overstates and never understates, except for
repeated calls: only those of the latest sessions are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.messages.immutable import thaw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_ENTRIES, MOST_RUNS, MOST_RUNNING, MOST_SESSIONS = 500, 200, 1_000, 50
"""The most entries of a window, runs, running calls and sessions that are kept separately."""
MOST_WAITING, MOST_COUNTED = 100, 20
"""The most calls, and limits of each, whose amounts can be taken back."""
LONGEST_MEMORY = 64
"""The number of latest calls of a session that are compared."""


class CallTime(NamedTuple):
    """The start of a call: *now* in seconds of the epoch, its run, its session, its *call_key*."""

    now: float
    run_id: str
    session_id: str
    call_key: str


class SessionRecord:
    """The record of a session, read from the JSON that `value` returns."""

    def __init__(self, value: Mapping[str, Any] | None) -> None:
        known: dict[str, Any] = {} if value is None else thaw(value)
        self._meters: dict[str, dict[str, Any]] = known.get("meters", {})
        self._recent: dict[str, dict[str, list[str]]] = known.get("recent", {})
        self._happened: dict[str, str] = known.get("happened", {})
        self._folders: dict[str, str | None] = known.get("folders", {})
        self._running: dict[str, dict[str, Any]] = known.get("running", {})
        self._counted: list[list[Any]] = []

    @property
    def value(self) -> dict[str, Any]:
        """The record as JSON."""
        parts = {
            "meters": self._meters,
            "recent": self._recent,
            "happened": self._happened,
            "folders": self._folders,
            "running": self._running,
        }
        return {key: part for key, part in parts.items() if part}

    def used(self, meter: str, when: CallTime, seconds: float | None, *, by_run: bool) -> float:
        """Return the amount on *meter*: of the last *seconds*, of this run, or of the session."""
        state = self._meters.get(meter, {})
        if seconds is not None:
            oldest = when.now - seconds
            run_id = when.run_id if by_run else None
            entries = state.get("entries", ())
            amounts: list[float] = [
                amount
                for time, amount, run in entries
                if time > oldest and (run_id is None or run in {run_id, ""})
            ]
            return sum(amounts)
        if by_run:
            used: float = state.get("runs", {}).get(when.run_id, 0)
            return used
        total: float = state.get("sum", 0)
        return total

    def add(
        self, meter: str, amount: float, when: CallTime, seconds: float | None, *, by_run: bool
    ) -> None:
        """Add *amount* to *meter*, which is always used with the same *seconds* and *by_run*."""
        if amount <= 0:
            return
        state = self._meters.setdefault(meter, {})
        self._counted.append([meter, amount, when.now, when.run_id if by_run else ""])
        if seconds is not None:
            oldest = when.now - seconds
            entries = [entry for entry in state.get("entries", ()) if entry[0] > oldest]
            entries.append([when.now, amount, when.run_id if by_run else ""])
            state["entries"] = _fewer(entries)
        elif by_run:
            runs = state.setdefault("runs", {})
            runs[when.run_id] = runs.pop(when.run_id, 0) + amount
            _drop_first(runs, MOST_RUNS)
        else:
            state["sum"] = state.get("sum", 0) + amount

    def recent(self, rule: str, session_id: str) -> Sequence[str]:
        """Return the digests of the latest calls of a session that *rule* matched."""
        return self._recent.get(rule, {}).get(session_id, ())

    def remember(self, rule: str, session_id: str, digest: str) -> None:
        """Append a call to the latest calls of its session."""
        sessions = self._recent.setdefault(rule, {})
        self._counted.append([rule, session_id, digest])
        sessions[session_id] = [*sessions.pop(session_id, ()), digest][-LONGEST_MEMORY:]
        _drop_first(sessions, MOST_SESSIONS)

    def has_happened(self, name: str) -> bool:
        """Return whether a call of this *name* certainly happened, and ended as required."""
        return self._happened.get(name) == "surely"

    def may_have_happened(self, name: str) -> bool:
        """Return whether a call that may have this *name* happened, or is still running."""
        return name in self._happened or any(
            name in each["named"] for each in self._running.values()
        )

    def shell_folder(self, shell: str) -> tuple[str | None] | None:
        """Return, as a 1-tuple, the folder where a *shell* was left; None before its first call."""
        return (self._folders[shell],) if shell in self._folders else None

    def move(self, shell: str, folder: str | None) -> None:
        """Record the folder of a *shell*; it is unknown while another call of the shell runs."""
        is_busy = any(each.get("shell", [""])[0] == shell for each in self._running.values())
        self._folders.pop(shell, None)
        self._folders[shell] = None if is_busy else folder
        _drop_first(self._folders, MOST_SESSIONS)

    def begin(
        self,
        when: CallTime,
        meters: Mapping[str, Any],
        named: Mapping[str, bool],
        shell: tuple[str, str | None] | None = None,
    ) -> None:
        """Record a running call: its *named* calls (certain or not), and *meters* due at its end.

        *shell* is the key of a shell whose folder may change, and its current folder.
        """
        if shell is not None:
            self.move(shell[0], None)
        counted, self._counted = self._counted, []
        if meters or named or shell or counted:
            self._running[when.call_key] = {
                "since": when.now,
                "run": when.run_id,
                "meters": dict(meters),
                "named": dict(named),
                **({"shell": list(shell)} if shell else {}),
                **({"counted": counted} if 0 < len(counted) <= MOST_COUNTED else {}),
            }
        self._keep_fewer()

    def _keep_fewer(self) -> None:
        waiting = [key for key, each in self._running.items() if "counted" in each]
        for key in waiting[:-MOST_WAITING]:
            call = self._running[key]
            del call["counted"]
            if not (call["meters"] or call["named"] or "shell" in call):
                del self._running[key]
        while len(self._running) > MOST_RUNNING:
            oldest = self._running.pop(next(iter(self._running)))
            for name in oldest["named"]:
                self._happened.setdefault(name, "perhaps")

    def running(self, call_key: str) -> Mapping[str, Any] | None:
        """Return the entry of a running call, or None."""
        return self._running.get(call_key)

    def take_back(self, call_key: str) -> None:
        """Undo the start of a call: it waited, and did not run."""
        call = self._running.pop(call_key, None)
        if call is None:
            return
        if "shell" in call:
            self.move(*call["shell"])
        for counted in call.get("counted", ()):
            match counted:
                case [rule, session_id, digest]:
                    _remove_last(self._recent.get(rule, {}).get(session_id, []), digest)
                case [meter, amount, now, run_id]:
                    _subtract(self._meters.get(meter, {}), amount, now, run_id)

    def end(self, call_key: str, happened: Mapping[str, bool]) -> None:
        """End a running call; its names that are in *happened* have happened (certainly or not)."""
        call = self._running.pop(call_key, None)
        for name, is_sure in {} if call is None else call["named"].items():
            if name in happened:
                surely = is_sure and happened[name]
                if surely or name not in self._happened:
                    self._happened[name] = "surely" if surely else "perhaps"


def _remove_last(items: list[Any], item: Any) -> None:
    for index in range(len(items) - 1, -1, -1):
        if items[index] == item:
            del items[index]
            return


def _subtract(state: dict[str, Any], amount: float, now: float, run_id: str) -> None:
    """Take back an amount from a meter; merged entries stay."""
    if "entries" in state:
        _remove_last(state["entries"], [now, amount, run_id])
    elif run_id in state.get("runs", {}):
        state["runs"][run_id] = max(0, state["runs"][run_id] - amount)
    elif "sum" in state:
        state["sum"] = max(0, state["sum"] - amount)


def _fewer(entries: list[list[Any]]) -> list[list[Any]]:
    """Return *entries*, with the oldest two merged while there are too many.

    A merged entry has the later time and counts for every run, so that it only overstates.
    """
    while len(entries) > MOST_ENTRIES:
        first, second, *others = entries
        run = first[2] if first[2] == second[2] else ""
        entries = [[max(first[0], second[0]), first[1] + second[1], run], *others]
    return entries


def _drop_first(table: dict[str, Any], limit: int) -> None:
    while len(table) > limit:
        del table[next(iter(table))]
