"""The scenarios that every framework plays, as data, those that matter most first.

It imports nothing of toolbus or of a framework: tests, drivers and the guide's table read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HIDDEN = "[secret]"
REASON = "the guard refused it"
SECRET = "tok-" + "5e7a1c90b2d4"
OURS = frozenset(
    "statuses sessions agents watched runs stored results ledger explained".split()  # noqa: SIM905
)
"""What only a bus observes; a framework's own hooks are not asked about it."""


@dataclass(frozen=True)
class Check:
    """A fact about an observation: *kind* says how the value at *path* compares with *value*."""

    kind: str
    path: str
    value: Any

    def problem(self, seen: Mapping[str, Any]) -> str:
        """Return why the observation *seen* differs, "" if it does not."""
        found: Any = seen
        for name in self.path.split("."):
            if not isinstance(found, dict) or name not in found:
                return "" if self.kind == "missing" else f"{self.path} is missing"
            found = found[name]
        holds = {
            "equal": lambda: found == self.value,
            "contains": lambda: found is not None and self.value in found,
            "absent": lambda: found is not None and self.value not in found,
            "at least": lambda: found >= self.value,
            "count": lambda: found.count(self.value[0]) == self.value[1],
            "some": lambda: any(self.value in text for text in found.values()),
            "total": lambda: sum(found.values()) == self.value,
            "distinct": lambda: len(set(found.values())) == self.value,
            "missing": lambda: False,
        }[self.kind]()
        return "" if holds else f"{self.path}: {self.kind} {self.value!r}, got {found!r}"


def equal(path, value) -> Check:
    return Check("equal", path, value)


def contains(path, value) -> Check:
    return Check("contains", path, value)


def absent(path, value=SECRET) -> Check:
    return Check("absent", path, value)


def missing(path) -> Check:
    return Check("missing", path, None)


def ran(*calls) -> Check:
    return Check("equal", "ran", [[name, arguments] for name, arguments in calls])


def ended(**statuses) -> tuple[Check, ...]:
    """Return the checks that each call has exactly one end, with its status."""
    ends = [Check("equal", f"ends.{call_id}", 1) for call_id in statuses]
    return (
        *ends,
        *(Check("equal", f"statuses.{call_id}", statuses[call_id]) for call_id in statuses),
    )


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A script of the model, the handlers, and the checks of the observation.

    *script* and *sub* are turns: a text, or a list of `[tool, arguments]`; calls get the ids c1,
    c2, … and those of the sub-agent s1, s2, …. *needs* are the abilities of a bridge without which
    it cannot be delivered; "run" is that of a framework that runs the model itself. A *streamed*
    run uses the framework's streaming, a *sync* one sync tools and the framework's sync entry if it
    has one; a *cancelled* one is cancelled while `hang` runs; an *unwrapped* one wraps no
    sub-agent. *person* is the answer to each question, None without an approver. With two
    *sessions* two runs go on at once. The calls of a model that *repeats_ids* all have the id c1.
    *timeout* is that of each tool, in seconds. *ours* is not asked of a framework's own hooks.
    """

    title: str
    script: tuple = ("done",)
    handlers: tuple[Mapping[str, Any], ...] = ()
    sub: tuple = ()
    prompts: tuple[str, ...] = ("go",)
    needs: tuple[str, ...] = ()
    streamed: bool = False
    sync: bool = False
    cancelled: bool = False
    unwrapped: bool = False
    explained: bool = False
    ours: bool = False
    repeats_ids: bool = False
    timeout: float | None = None
    sessions: int = 1
    partial: bool = True
    person: bool | None = None
    expect: tuple[Check, ...] = ()

    def deliveries(self, delivers: Mapping[str, str]) -> dict[str, str]:
        """Return the delivery of each of its needs by a bridge with the abilities *delivers*."""
        # A framework in which another program asks the model has no run.
        runs = "outside" if delivers["model_calls"] == "outside" else "yes"
        found = {need: {**delivers, "run": runs}[need] for need in self.needs}
        if self.unwrapped and found["sub_agents"] == "wrapped":
            found["sub_agents"] = "no"
        return found

    def problems(self, seen: Mapping[str, Any], mode: str = "bridge") -> list[str]:
        """Return what is not as expected in the observation *seen* of a play in *mode*."""
        if seen["undelivered"]:
            return [seen["undelivered"]]
        checks = [
            check
            for check in self.expect
            if mode != "own" or self.ours or check.path.split(".")[0] not in OURS
        ]
        problems = [check.problem(seen) for check in checks]
        found = [problem for problem in problems if problem]
        return found + [f"the run failed: {seen['error']}"] * bool(found and seen["error"])


def echoes(*texts):
    """Return the turns of a model that echoes *texts* in one turn and is done."""
    return ([["echo", {"text": text}] for text in texts], "done")


ECHO, LOOKUP = ("echo", {"text": "a"}), ("lookup", {"key": "db"})
DELEGATE = ("delegate", {"task": "look"})
SUB_ECHO = ([["echo", {"text": "a"}]], "done below")
DENY_ECHO, REDACT = {"deny": "echo"}, {"redact": "*"}
DONE = equal("answer", "done")
FAILED = ([["fail", {"text": "x"}]], "done")
LOOKED_UP = ([["lookup", {"key": "db"}]], "done")

SCENARIOS = (
    Scenario(
        title="Call of a sub-agent is judged",
        script=([list(DELEGATE)], "done"),
        sub=SUB_ECHO,
        handlers=(DENY_ECHO,),
        needs=("sub_agents", "deny"),
        expect=(
            ran(DELEGATE),
            contains("read.s1", REASON),
            contains("read.c1", "done below"),
            DONE,
            *ended(s1="denied", c1="ok"),
        ),
    ),
    Scenario(
        title="Sub-agent is judged without being wrapped",
        script=([list(DELEGATE)], "done"),
        sub=SUB_ECHO,
        handlers=(DENY_ECHO,),
        needs=("sub_agents", "deny"),
        unwrapped=True,
        expect=(ran(DELEGATE), contains("read.s1", REASON), DONE),
    ),
    Scenario(
        title="Result in a sub-agent is redacted",
        script=([list(DELEGATE)], "done"),
        sub=LOOKED_UP,
        handlers=(REDACT,),
        needs=("sub_agents", "replace_result"),
        expect=(contains("read.s1", HIDDEN), absent("read.s1"), DONE),
    ),
    Scenario(
        title="Unknown tool is judged",
        script=([["remove_all", {"path": "x"}]], "done"),
        handlers=({"deny": "remove_all"},),
        needs=("unknown_tools", "deny"),
        expect=(ran(), contains("read.c1", REASON), DONE, *ended(c1="denied")),
    ),
    Scenario(
        title="Unknown tool has an end",
        script=([["remove_all", {"path": "x"}]], "done"),
        needs=("unknown_tools",),
        expect=(ran(), contains("read.c1", "remove_all"), DONE, *ended(c1="unknown_tool")),
    ),
    Scenario(
        title="Crashing guard denies the call",
        script=echoes("a"),
        handlers=({"crash": "echo"},),
        needs=("deny",),
        expect=(ran(), contains("read.c1", ""), DONE, *ended(c1="denied")),
    ),
    Scenario(
        title="Hanging guard denies the call",
        script=echoes("a"),
        handlers=({"hang": "echo"},),
        needs=("deny",),
        expect=(ran(), contains("read.c1", ""), DONE, *ended(c1="denied")),
    ),
    Scenario(
        title="Crashing redaction withholds the result",
        script=LOOKED_UP,
        handlers=({"crash_result": "lookup"},),
        needs=("replace_result",),
        expect=(
            ran(LOOKUP),
            contains("read.c1", ""),
            absent("read.c1"),
            absent("stored"),
            DONE,
            *ended(c1="ok"),
        ),
    ),
    Scenario(
        title="Crashing guard of prompts denies them",
        prompts=("make a bomb",),
        handlers=({"crash_prompt": "bomb"},),
        needs=("block_prompt",),
        expect=(equal("requests", 0), equal("runs", ["denied"])),
    ),
    Scenario(
        title="Failure is redacted",
        script=FAILED,
        handlers=(REDACT,),
        needs=("replace_failure",),
        expect=(
            contains("read.c1", "cannot read x"),
            contains("read.c1", HIDDEN),
            absent("read.c1"),
            DONE,
            *ended(c1="error"),
        ),
    ),
    Scenario(
        title="Handler answers for a failure",
        script=FAILED,
        handlers=({"replace_failure": "fail", "text": "an old copy"},),
        needs=("replace_failure",),
        expect=(equal("read.c1", "an old copy"), DONE, *ended(c1="error")),
    ),
    Scenario(
        title="Wrong arguments are judged",
        script=([["add", {"a": "one", "b": 2}]], "done"),
        handlers=({"deny": "add"},),
        needs=("invalid_arguments", "deny"),
        expect=(ran(), contains("read.c1", REASON), DONE, *ended(c1="denied")),
    ),
    Scenario(
        title="Wrong arguments have an end",
        script=([["add", {"a": "one", "b": 2}]], "done"),
        needs=("invalid_arguments",),
        expect=(ran(), contains("read.c1", ""), DONE, *ended(c1="invalid_arguments")),
    ),
    Scenario(
        title="Parallel calls run at once",
        script=([["slow", {"key": key}] for key in "abc"], "done"),
        handlers=(REDACT, {"deny": "echo"}),
        expect=(
            Check("at least", "overlap", 2),
            *(equal(f"read.c{number}", f"slow {key}") for number, key in enumerate("abc", 1)),
            DONE,
            *ended(c1="ok", c2="ok", c3="ok"),
        ),
    ),
    Scenario(
        title="Each of parallel calls is judged",
        script=([["echo", {"text": text}] for text in "abc"], "done"),
        handlers=({"deny": "echo", "when": {"text": "b"}},),
        needs=("deny",),
        expect=(
            Check("count", "ran", (["echo", {"text": "b"}], 0)),
            equal("read.c1", "a"),
            contains("read.c2", REASON),
            equal("read.c3", "c"),
            DONE,
            *ended(c1="ok", c2="denied", c3="ok"),
        ),
    ),
    Scenario(
        title="Failing call spares its siblings",
        script=([["fail", {"text": "x"}], ["lookup", {"key": "db"}]], "done"),
        handlers=(REDACT,),
        needs=("replace_failure", "replace_result"),
        expect=(
            contains("read.c1", HIDDEN),
            contains("read.c2", HIDDEN),
            absent("read.c1"),
            absent("read.c2"),
            DONE,
            *ended(c1="error", c2="ok"),
        ),
    ),
    Scenario(
        title="Each rewrite sees the one before",
        script=echoes("a"),
        handlers=(
            {"rewrite": "echo", "set": {"text": "b"}},
            {"rewrite": "echo", "append": {"text": "!"}},
        ),
        needs=("rewrite_arguments",),
        expect=(ran(("echo", {"text": "b!"})), equal("read.c1", "b!"), DONE, *ended(c1="ok")),
    ),
    Scenario(
        title="Guard sees the rewritten call",
        script=echoes("a"),
        handlers=(
            {"deny": "echo", "when": {"text": "b"}},
            {"rewrite": "echo", "set": {"text": "b"}},
        ),
        needs=("rewrite_arguments", "deny"),
        expect=(ran(), contains("read.c1", REASON), DONE, *ended(c1="denied")),
    ),
    Scenario(
        title="Streamed run is judged and redacted",
        script=([["lookup", {"key": "db"}], ["echo", {"text": "a"}]], "all done"),
        handlers=(REDACT, DENY_ECHO),
        needs=("run", "deny", "replace_result"),
        streamed=True,
        expect=(
            ran(LOOKUP),
            contains("read.c1", HIDDEN),
            contains("read.c2", REASON),
            contains("shown", "done"),
            absent("shown"),
            equal("answer", "all done"),
            *ended(c1="ok", c2="denied"),
        ),
    ),
    Scenario(
        title="Call after a handoff is judged",
        script=([["handoff", {"task": "look"}]], "done"),
        sub=SUB_ECHO,
        handlers=(DENY_ECHO,),
        needs=("handoffs", "deny"),
        expect=(
            Check("count", "ran", (list(ECHO), 0)),
            contains("read.s1", REASON),
            *ended(s1="denied"),
        ),
    ),
    Scenario(
        title="Cancelled run ends each call",
        script=([["echo", {"text": "a"}], ["hang", {}]], "done"),
        cancelled=True,
        expect=(
            Check("count", "ran", (["hang", {}], 1)),
            contains("error", "Cancelled"),
            *ended(c1="ok", c2="cancelled"),
            contains("results.c2", ""),
        ),
    ),
    Scenario(
        title="Every call has exactly one end",
        script=(
            [["echo", {"text": "a"}], ["fail", {"text": "x"}], ["add", {"a": 1, "b": 2}]],
            [["lookup", {"key": "db"}], ["slow", {"key": "k"}]],
            "done",
        ),
        handlers=(
            {"deny": "lookup"},
            {"answer": "slow", "text": "early"},
            {"rewrite": "add", "set": {"b": 3}},
        ),
        needs=("deny", "answer", "rewrite_arguments"),
        expect=(DONE, *ended(c1="ok", c2="error", c3="ok", c4="denied", c5="answered")),
    ),
    Scenario(
        title="Repeated call id is judged again",
        script=([["echo", {"text": "a"}]], [["echo", {"text": "b"}]], "done"),
        handlers=({"deny": "echo", "when": {"text": "b"}},),
        needs=("deny",),
        repeats_ids=True,
        # Each call has an end; a bridge or a framework may give the second one an id of its own.
        expect=(ran(ECHO), Check("some", "read", REASON), Check("total", "ends", 2), DONE),
    ),
    Scenario(
        title="Tool is stopped at its timeout",
        script=([["hang", {}]], "done"),
        needs=("retry",),  # Both need a bridge that runs the tool.
        timeout=0.15,
        ours=True,
        expect=(ran(("hang", {})), contains("read.c1", ""), DONE, *ended(c1="timeout")),
    ),
    Scenario(
        title="Traces hold nothing raw of results",
        script=LOOKED_UP,
        handlers=(REDACT,),
        needs=("clean_traces",),
        expect=(contains("traces", HIDDEN), absent("traces"), absent("read.c1"), DONE),
    ),
    Scenario(
        title="Traces hold nothing raw of failures",
        script=FAILED,
        handlers=(REDACT,),
        needs=("clean_traces", "replace_failure"),
        expect=(contains("traces", HIDDEN), absent("traces"), absent("read.c1"), DONE),
    ),
    Scenario(
        title="Arguments are rewritten",
        script=echoes("a"),
        handlers=({"rewrite": "echo", "set": {"text": "b"}},),
        needs=("rewrite_arguments",),
        expect=(ran(("echo", {"text": "b"})), equal("read.c1", "b"), DONE, *ended(c1="ok")),
    ),
    Scenario(
        title="Call is denied with a reason",
        script=echoes("a"),
        handlers=(DENY_ECHO,),
        needs=("deny",),
        expect=(ran(), contains("read.c1", REASON), DONE, *ended(c1="denied")),
    ),
    Scenario(
        title="Handler answers a call",
        script=echoes("a"),
        handlers=({"answer": "echo", "text": "from the cache"},),
        needs=("answer",),
        expect=(ran(), equal("read.c1", "from the cache"), DONE, *ended(c1="answered")),
    ),
    Scenario(
        title="Approved call runs",
        script=echoes("a"),
        handlers=({"ask": "echo"},),
        person=True,
        needs=("deny",),
        expect=(
            equal("asked", ["echo"]),
            ran(ECHO),
            equal("read.c1", "a"),
            DONE,
            *ended(c1="ok"),
        ),
    ),
    Scenario(
        title="Refused call does not run",
        script=echoes("a"),
        handlers=({"ask": "echo"},),
        person=False,
        needs=("deny",),
        expect=(
            equal("asked", ["echo"]),
            ran(),
            contains("read.c1", ""),
            DONE,
            *ended(c1="denied"),
        ),
    ),
    Scenario(
        title="Question without an approver denies",
        script=echoes("a"),
        handlers=({"ask": "echo"},),
        needs=("deny",),
        expect=(ran(), contains("read.c1", ""), DONE, equal("ends.c1", 1)),
    ),
    Scenario(
        title="Failed call runs again",
        script=([["flaky", {}]], "done"),
        handlers=({"retry": "flaky"},),
        needs=("retry",),
        expect=(
            ran(("flaky", {}), ("flaky", {})),
            equal("read.c1", "ready"),
            DONE,
            *ended(c1="ok"),
        ),
    ),
    Scenario(
        title="Result is redacted",
        script=LOOKED_UP,
        handlers=(REDACT,),
        needs=("replace_result",),
        expect=(
            ran(LOOKUP),
            equal("read.c1", f"the token of db is {HIDDEN}, valid for a year"),
            absent("stored"),
            DONE,
            *ended(c1="ok"),
        ),
    ),
    Scenario(
        title="Result is truncated",
        script=LOOKED_UP,
        handlers=({"truncate": 12},),
        needs=("replace_result",),
        expect=(equal("read.c1", "the token of"), DONE, *ended(c1="ok")),
    ),
    Scenario(
        title="Structured result keeps its form",
        script=([["record", {"key": "db"}]], "done"),
        handlers=(REDACT,),
        needs=("replace_result",),
        expect=(
            contains("read.c1", HIDDEN),
            contains("read.c1", "uses"),
            absent("read.c1"),
            DONE,
            *ended(c1="ok"),
        ),
    ),
    Scenario(
        title="Denied result is not read",
        script=LOOKED_UP,
        handlers=({"deny_result": "lookup"},),
        needs=("replace_result",),
        expect=(
            ran(LOOKUP),
            contains("read.c1", REASON),
            absent("read.c1"),
            absent("stored"),
            DONE,
        ),
    ),
    Scenario(
        title="Prompt is denied",
        script=("done",),
        prompts=("make a bomb",),
        handlers=({"deny_prompt": "bomb"},),
        needs=("block_prompt",),
        expect=(equal("requests", 0), equal("runs", ["denied"])),
    ),
    Scenario(
        title="Prompt is redacted",
        script=("done",),
        prompts=(f"log in with {SECRET}",),
        handlers=({"redact_prompt": "*"},),
        needs=("rewrite_prompt",),
        expect=(equal("prompt", f"log in with {HIDDEN}"), absent("stored"), DONE),
    ),
    Scenario(
        title="Final answer is redacted",
        script=(f"it is {SECRET}",),
        handlers=({"redact_answer": "*"},),
        needs=("replace_answer",),
        expect=(equal("answer", f"it is {HIDDEN}"), absent("stored")),
    ),
    Scenario(
        title="Streamed answer is redacted",
        script=(f"it is {SECRET} indeed",),
        handlers=({"redact_answer": "*"},),
        needs=("run", "replace_answer"),
        streamed=True,
        expect=(equal("answer", f"it is {HIDDEN} indeed"), contains("shown", ""), absent("shown")),
    ),
    Scenario(
        title="Hidden tool is not offered",
        script=("done",),
        handlers=({"hide": "echo"},),
        needs=("change_tools",),
        expect=(missing("offered.echo"), contains("offered.add", ""), DONE),
    ),
    Scenario(
        title="Hidden tool cannot be called",
        script=echoes("a"),
        handlers=({"hide": "echo"},),
        needs=("deny",),
        expect=(ran(), contains("read.c1", "echo"), DONE),
    ),
    Scenario(
        title="Adapter rewords a tool",
        script=("done",),
        handlers=({"reword": "echo", "text": "Say it aloud."},),
        needs=("change_tools",),
        expect=(equal("offered.echo", "Say it aloud."), DONE),
    ),
    Scenario(
        title="Adapter fills an argument",
        script=([["add", {"a": 1}]], "done"),
        handlers=({"fill": "add", "set": {"b": 41}},),
        needs=("change_tools", "rewrite_arguments"),
        expect=(
            equal("parameters.add", ["a"]),
            ran(("add", {"a": 1, "b": 41})),
            equal("read.c1", "42"),
            DONE,
            *ended(c1="ok"),
        ),
    ),
    Scenario(
        title="Sync run is judged and redacted",
        script=([["lookup", {"key": "db"}], ["echo", {"text": "a"}]], "done"),
        handlers=(REDACT, DENY_ECHO),
        needs=("deny", "replace_result"),
        sync=True,
        expect=(
            ran(LOOKUP),
            contains("read.c1", HIDDEN),
            absent("read.c1"),
            contains("read.c2", REASON),
            DONE,
            *ended(c1="ok", c2="denied"),
        ),
    ),
    Scenario(
        title="Context variables reach the tool",
        script=([["whoami", {}]], "done"),
        expect=(equal("read.c1", "ann"), DONE),
    ),
    Scenario(
        title="Context variables reach a sync tool",
        script=([["whoami", {}]], "done"),
        sync=True,
        expect=(equal("read.c1", "ann"), DONE),
    ),
    Scenario(
        title="Store holds each call's result",
        script=([["lookup", {"key": "db"}], ["fail", {"text": "x"}]], "done"),
        handlers=(REDACT,),
        needs=("replace_result", "replace_failure"),
        ours=True,
        expect=(
            contains("results.c1", HIDDEN),
            contains("results.c2", HIDDEN),
            absent("stored"),
        ),
    ),
    Scenario(
        title="Ledger names the handler",
        script=echoes("a"),
        handlers=(DENY_ECHO,),
        needs=("deny",),
        ours=True,
        expect=(contains("ledger", "tool:call:before DenyTool.judge denied"),),
    ),
    Scenario(
        title="Explain tells of a stored call",
        script=echoes("a"),
        handlers=({"rewrite": "echo", "set": {"text": "b"}}, REDACT),
        needs=("rewrite_arguments",),
        ours=True,
        explained=True,
        expect=(contains("explained", "RewriteTool"), contains("explained", "echo")),
    ),
    Scenario(
        title="Async observers see each end",
        script=echoes("a"),
        handlers=(DENY_ECHO,),
        needs=("deny",),
        ours=True,
        expect=(Check("count", "watched", ("end c1 denied", 1)),),
    ),
    Scenario(
        title="Model's requests are observed",
        script=echoes("a"),
        needs=("model_calls",),
        ours=True,
        expect=(Check("count", "watched", ("request", 2)),),
    ),
    Scenario(
        title="Run has exactly one end",
        script=echoes("a"),
        needs=("run",),
        ours=True,
        expect=(equal("runs", ["ok"]), DONE),
    ),
    Scenario(
        title="Disabled component changes nothing",
        script=echoes("a"),
        handlers=({"disabled": DENY_ECHO},),
        expect=(ran(ECHO), equal("read.c1", "a"), DONE, *ended(c1="ok")),
    ),
    Scenario(
        title="Second run continues the session",
        script=(*echoes("a"), *echoes("b")),
        needs=("run",),
        prompts=("first prompt", "second prompt"),
        ours=True,
        expect=(
            Check("distinct", "sessions", 1),
            contains("results.c1", "a"),
            contains("results.c2", "b"),
            contains("stored", "first prompt"),
            contains("stored", "second prompt"),
            contains("stored", "done"),
            equal("runs", ["ok", "ok"]),
        ),
    ),
    Scenario(
        title="Two sessions stay apart",
        script=([["slow", {"key": "k"}]], [["echo", {"text": "a"}]], "done"),
        sessions=2,
        ours=True,
        expect=(
            Check("distinct", "sessions", 2),
            *ended(c1="ok", c2="ok", d1="ok", d2="ok"),
        ),
    ),
)
"""All scenarios, in the order of `specs/bridges.md`."""

BY_TITLE = {scenario.title: scenario for scenario in SCENARIOS}
