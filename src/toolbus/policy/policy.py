"""A policy: rules that allow tool calls, require approval or deny them, each with a reason.

**A policy judges commands; it is not a sandbox.** The effects of a call are derived from its words
before it runs. A program does whatever its code says: `make` runs the Makefile, an allowed
interpreter runs its script. Files are known by name: a hard link or an earlier copy is a different
file. Another process may change a file between the verdict and the call. Against hostile programs,
use a sandbox in addition to a policy.

```python
from toolbus import Agent
from toolbus.policy import Policy

agent = Agent(model, tools=[...], components=[Policy.read("policy.toml")], approver=ask_me)
```

```toml
[[component]]                           # in a toolbus.toml, also for the proxy and replays
use = "policy"
settings = { file = "policy.toml" }     # or the rules themselves: [[component.settings.rule]]
```

**Judging a call.** A shell command line is parsed: each command in it, at any depth, is one part. A
call of any other tool is one part. A rule matches a part if all of its conditions match. Deny beats
ask, ask beats allow, and a part without a matching rule gets the default. The call is allowed only
if every part is allowed; one denied part denies the call.

**Deny, ask and audit rules** match a part as soon as one of its effects, files or hosts matches. If
a match cannot be ruled out (a path in a variable), a deny rule asks.

**Allow rules** match a part only if all of it certainly matches: every effect is in `effects`,
every file in `reads` or `writes`, every host in `hosts`, and nothing about the part is unknown. A
rule with one of these keys covers only the resources it names: a rule with `hosts` allows neither a
part without a host nor, without `reads`, a part that reads a file. Without `effects`, the rule
allows only the effects implied by its other conditions: `command = "git log"` does not allow `git
log --output=x`, and `reads = ["docs/**"]` does not allow writing.

**Unknown parts** (a program in a variable, `eval`, inline code, an unknown option) require approval
whatever the default is; a deny rule that matches the known portion still wins. For a tool other
than a shell, a rule with `tools` and without `effects`, `reads`, `writes` or `hosts` allows the
call as such.

**An absent or null argument** does not match. A value of the wrong type or a failing expression
denies the call, and the reason names the rule. A missing, unreadable or invalid policy file is an
error if code loads it, and denies every call if a configuration names it. For a file that changes
later see `toolbus.policy.policy_versions`.

**No rule lifts** the protection of policy, trust, pin and state files, of the settings of agents'
hosts, and of `toolbus` commands that act for a person: `toolbus.policy.paths.protected_files`.

Keys of the file: `toolbus.policy.rules.policy_file`; keys of a rule: `toolbus.policy.rules.tables`.
`toolbus policy` creates a policy, checks it, explains its verdicts and tests it against a table.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence  # noqa: TC003 - a file's settings are of these types
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from toolbus.bus.dispatch.contexts import EventContext
from toolbus.components.call_facts import FactSources
from toolbus.components.components import AgentComponent
from toolbus.components.marks import guard
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, Ask, Deny
from toolbus.messages.records import ToolCall
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.history.counted_calls import CountedCall, call_key, decide, end_call, shell_key
from toolbus.policy.history.session_record import SessionRecord
from toolbus.policy.policy_versions import PolicyVersions
from toolbus.policy.projects import FROM_FILE, WorksInFolder, process_folder, project_of
from toolbus.policy.rules.judge import RANKS, CallJudge, ProjectJudges
from toolbus.policy.rules.policy_file import PolicyFile, combined_digest, read_table
from toolbus.policy.rules.verdict_texts import (
    asking_rules,
    ledger_notes,
    question_text,
    refusal_text,
    without_words,
)
from toolbus.policy.shared_facts import OriginReader, describe_effects
from toolbus.policy.skipped_prompts import needs_no_prompt
from toolbus.toml.config_source import config_source

if TYPE_CHECKING:
    from toolbus.components.call_facts import CallEffects, CallFacts
    from toolbus.components.components import Host
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.messages.records import Message, ToolMessage
    from toolbus.policy.facts import CallReading
    from toolbus.policy.projects import Project
    from toolbus.policy.rules.records import CallVerdict, PolicyRules


T = TypeVar("T")
_LONGEST_QUICK = 100_000
"""Characters of arguments whose quotes of other texts are looked for in the event loop."""
_MOST_READINGS = 100
"""Readings of calls that are kept until their effects are asked for."""
_USUAL = {"default": "ask", "project": FROM_FILE}
"""The non-empty settings of a policy that comes from a file."""


class UnusablePolicy(NamedTuple):
    """The stand-in for a policy that cannot be used: every call is denied with *reason*."""

    reason: str


class _SessionJudges(NamedTuple):
    """The *judges* of a session, one per active version of its rules, and a *notice* on the file.

    A *refusal* is why a version cannot be used: every call is denied with it.
    """

    judges: tuple[CallJudge, ...]
    notice: str = ""
    refusal: str = ""

    @property
    def remembers(self) -> bool:
        """Whether verdicts depend on earlier calls."""
        return any(judge.remembers for judge in self.judges)

    def keeps_folder(self, tool_name: str) -> bool:
        """Return whether a call of the tool begins in the folder where its last call ended."""
        rules = [judge.rules for judge in self.judges if judge.keeps_folders]
        return any(each.facts_of(tool_name).keeps_folder for each in rules)


class Policy(AgentComponent):
    """Judges the calls of tools by rules; see `toolbus.policy.policy`.

    Args:
        file: the policy file. An unusable file raises `LoadError` with the line and the reason;
            named by a configuration, it denies every call instead. Without a file, the other
            settings are the policy, with the keys of a file.
        default: the verdict if no rule matches: "ask", "deny" or "allow".
        rule: the rules, as tables.
        call: the calls that limits name, as tables.
        tools: the effects of tools other than shells.
        project: the base of relative paths in rules: "file" is the policy's folder (without a file
            the current folder), "session" the folder in which a session began.
        folder: the base of relative paths in tool arguments.
        trust_annotations: globs of the tools whose annotations are trusted.
        enabled: as for every component.
        clock: returns seconds since the epoch, used by limits.
    """

    def __init__(
        self,
        file: Path | None = None,
        *,
        default: str = "ask",
        rule: Sequence[Mapping[str, Any]] = (),
        call: Sequence[Mapping[str, Any]] = (),
        tools: Mapping[str, Any] | None = None,
        project: str = FROM_FILE,
        folder: Path | None = None,
        trust_annotations: Sequence[str] = (),
        enabled: bool | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(enabled=enabled)
        self._memory, self._clock, self._origins = LineCache(), clock, OriginReader()
        self._readings: dict[str, tuple[ToolCall, list[CallReading]]] = {}
        table = {"default": default, "rule": rule, "call": call, "tools": tools or {}}
        table |= {"project": project, "trust_annotations": trust_annotations}
        if file is not None and {key: table[key] for key in table if table[key]} != _USUAL:
            raise RegistrationError("Policy", "give its rules in a file or as settings, not both")
        self._folder = None if folder is None else os.path.abspath(folder)  # noqa: PTH100 - links stay
        origin = config_source.get()
        self._config_files = () if origin is None else origin.files
        self._file: PolicyVersions[ProjectJudges | UnusablePolicy] | None = None
        if file is None:
            self._fixed = self._judges_of(partial(read_table, table, None))
        else:
            self._file = PolicyVersions(file.expanduser(), self._read, UnusablePolicy)

    @classmethod
    def read(cls, file: Path | str, *, folder: Path | str | None = None) -> Self:
        """Return the policy of *file*; raises `LoadError` if the file cannot be used."""
        return cls(Path(file), folder=None if folder is None else Path(folder))

    @property
    def rules(self) -> PolicyRules | UnusablePolicy:
        """The rules of a new session, or why there are none."""
        judges = self._fixed if self._file is None else self._file.latest
        return judges if isinstance(judges, UnusablePolicy) else judges.first.rules

    def subscribe(self, host: Host) -> None:
        """Offer the effects of calls to the components on the bus of *host*."""
        super().subscribe(host)
        readers = host.bus.shared(FactSources).effects
        readers.append(self)
        self._undo.callback(readers.remove, self)

    @guard(TOOL_CALL_BEFORE, on_error="closed")
    async def judge_call(self, ctx: EventContext[ToolCall]) -> Deny | Ask | None:
        """Judge a call in its final form."""
        active = self._active_judges(ctx.scope)
        if active.refusal:
            return Deny(active.refusal)
        judged = await self._judged(active, ctx)
        if active.remembers:
            judged = await self._counted(judged, ctx.scope)
        judge, judgement = max(judged, key=lambda pair: RANKS[pair[1].verdict])
        judgement = without_words(judgement)
        ctx.note(partial(ledger_notes, judge.rules.rules, judgement, active.notice))
        match judgement.verdict:
            case "deny":
                return Deny(refusal_text(judgement, judge.rules.path_warning))
            case "ask":
                asked = question_text(judgement, judge.rules.path_warning)
                rules = combined_digest([judge.rules for judge, _ in judged])
                return Ask(asked, asking_rules(judgement), rules)
        return None

    async def allows(self, ctx: EventContext[ToolCall]) -> bool:
        """Return whether rules, and not only the default, allow the call of *ctx*."""
        verdicts = await self._verdicts(ctx)
        parts = [part for verdict in verdicts for part in verdict.parts]
        return (
            all(verdict.parts for verdict in verdicts)
            and any(parts)
            and all(
                part.decided.status == "allowed" and part.decided.rule is not None for part in parts
            )
        )

    async def skips_prompt(self, call: ToolCall, tool: ToolSpec | None, scope: Scope) -> bool:
        """Return whether a rule with `prompt = "skip"` answers the host's prompt for *call*.

        Every part of such a call certainly only reads inside the session's starting folder.
        """
        rules = [rule for judge in self._active_judges(scope).judges for rule in judge.rules.rules]
        if not any(rule.skips_prompt for rule in rules):
            return False
        ctx = EventContext(TOOL_CALL_BEFORE, call, scope=scope, tool=tool)
        verdicts = await self._verdicts(ctx)
        project = project_of(scope, process_folder())
        return bool(verdicts) and await asyncio.to_thread(
            lambda: all(needs_no_prompt(verdict, project) for verdict in verdicts)
        )

    async def _verdicts(self, ctx: EventContext[ToolCall]) -> list[CallVerdict]:
        """Return the verdict of each version of the rules on the call of *ctx*, ignoring limits.

        The list is empty if the policy does not judge the call or a version cannot be used.
        """
        active = self._active_judges(ctx.scope)
        if active.refusal or not (self.enabled and self.selector.matches(ctx.value.name)):
            return []
        return [verdict for _, verdict in await self._judged(active, ctx)]

    async def effects_of(
        self, call: ToolCall, tool: ToolSpec | None, scope: Scope
    ) -> CallEffects | None:
        """Return the effects of *call*, None for a sender or a tool that it does not judge."""
        sender = "" if self.host is None else self.host.scope.agent_id
        active = self._active_judges(scope)
        is_judged = self.enabled and self.selector.matches(call.name) and not active.refusal
        if not is_judged or sender not in {"", scope.agent_id, *scope.lineage}:
            return None
        read, readings = self._readings.pop(call_key(scope, call.id), (call, []))
        if not readings or (read.name, read.arguments) != (call.name, call.arguments):
            ctx = EventContext(TOOL_CALL_BEFORE, call, scope=scope, tool=tool)
            readings = await self._examined(active, ctx, lambda _, reading: reading)
        return describe_effects(readings)

    async def _judged(
        self, active: _SessionJudges, ctx: EventContext[ToolCall]
    ) -> list[tuple[CallJudge, CallVerdict]]:
        """Return each judge with its verdict on the call of *ctx*, ignoring limits."""
        origins = None
        if self.host is not None and any(judge.needs_origins for judge in active.judges):
            origins = await self._origins.read(self.host.bus, ctx)
        judgements = await self._examined(active, ctx, CallJudge.judge, origins)
        return list(zip(active.judges, judgements, strict=True))

    async def _examined(
        self,
        active: _SessionJudges,
        ctx: EventContext[ToolCall],
        examine: Callable[[CallJudge, CallReading], T],
        origins: CallFacts | None = None,
    ) -> list[T]:
        """Return the results of *examine* for each judge and its reading of the call of *ctx*."""
        call, tool, scope = ctx.value, ctx.tool, ctx.scope
        kept_in = None
        if active.keeps_folder(call.name):
            record = SessionRecord(await self.state(scope, shared=True).read())
            kept_in = record.shell_folder(shell_key(scope, call.name))
        readers = [CallReader(judge.rules, self._memory) for judge in active.judges]
        folders = [self._folder_of(judge.rules, call.name, scope) for judge in active.judges]

        readings: list[CallReading] = []

        def examined() -> list[T]:
            for reader, folder in zip(readers, folders, strict=True):
                readings.append(reader.facts(call, tool, scope, folder, kept_in, origins=origins))
            return [*map(examine, active.judges, readings)]

        # Starting shfmt, walking folders or reading long texts would block the event loop.
        is_quick = all(reader.is_quick(call, tool) for reader in readers)
        is_quick = is_quick and (origins is None or len(str(call.arguments)) < _LONGEST_QUICK)
        results = examined() if is_quick else await asyncio.to_thread(examined)
        # After the run a shell may be in another folder, and a second reading takes time.
        self._readings[call_key(scope, call.id)] = call, readings
        while len(self._readings) > _MOST_READINGS:
            self._readings.pop(next(iter(self._readings)))
        return results

    @guard(MESSAGE_APPEND_BEFORE, roles="tool", on_error="closed")
    async def remember_end(self, ctx: EventContext[Message]) -> Deny | None:
        """Record the end of a call if limits of rules may need it."""
        message = ctx.value
        active = self._active_judges(ctx.scope)
        if message.role != "tool" or not active.remembers:
            return None
        rules = [judge.rules for judge in active.judges]
        key, now = call_key(ctx.scope, message.tool_call_id), self._clock()

        state = self.state(ctx.scope, shared=True)
        folder = None
        if active.keeps_folder(message.tool_name):
            running = SessionRecord(await state.read()).running(key) or {}
            if "shell" in running:
                start = running["shell"][1]
                folder = await asyncio.to_thread(self._next_folder, rules[-1], message, start)

        def change(value: Any) -> Any:
            record = SessionRecord(value)
            if record.running(key) is None:
                return value
            end_call(rules, record, key, message, now, folder=folder)
            return record.value

        await state.update(change)
        return None

    def _next_folder(
        self, rules: PolicyRules, message: ToolMessage, start: str | None
    ) -> str | None:
        response = message.tool_response
        if response is None or response.is_error or response.parameters is None:
            return None
        call = ToolCall(name=message.tool_name, arguments=response.parameters)
        return CallReader(rules, self._memory).next_folder(call, start)

    async def _counted(
        self, judged: Sequence[tuple[CallJudge, CallVerdict]], scope: Scope
    ) -> list[tuple[CallJudge, CallVerdict]]:
        """Return the verdicts with limits applied, and record the call unless it is denied."""
        judges = [judge for judge, _ in judged]
        # The names and the protected files of a call may depend on the file system.
        calls = [await asyncio.to_thread(CountedCall.of, *pair, scope) for pair in judged]
        now = self._clock()
        verdicts: list[CallVerdict] = []

        def change(value: Any) -> Any:
            # A lost race against another process calls this again; the last verdicts count.
            nonlocal verdicts
            record = SessionRecord(value)
            verdicts = decide(calls, record, now)
            is_denied = any(verdict.verdict == "deny" for verdict in verdicts)
            return value if is_denied else record.value

        await self.state(scope, shared=True).update(change)
        return list(zip(judges, verdicts, strict=True))

    def _folder_of(self, rules: PolicyRules, tool_name: str, scope: Scope) -> str | None:
        """Return the folder of a tool, as given by its caller or its component.

        The fallback for rules of a session's project is the current folder.
        """
        if scope.folder:
            return scope.folder
        tool = None if self.host is None else self.host.tools.get(tool_name)
        owner = getattr(tool.run, "__self__", None) if tool is not None else None
        folder = owner.tools_folder if isinstance(owner, WorksInFolder) else None
        return process_folder() if folder is None and rules.works_here else folder

    def _active_judges(self, scope: Scope) -> _SessionJudges:
        if self._file is None:
            return _SessionJudges((self._fixed.of(scope),))
        versions, notice = self._file.for_session(scope.root_session_id or scope.session_id)
        refusals = [each.reason for each in versions if isinstance(each, UnusablePolicy)]
        usable = [each.of(scope) for each in versions if not isinstance(each, UnusablePolicy)]
        return _SessionJudges(tuple(usable), notice, "".join(refusals[:1]))

    def _read(self, file: Path, data: bytes) -> ProjectJudges:
        return self._judges_of(PolicyFile(file, data).read)

    def _judges_of(self, read: Callable[[Project], PolicyRules]) -> ProjectJudges:
        def rules_for(project: Project) -> PolicyRules:
            rules = read(project)
            return rules if self._folder is None else rules._replace(folder=self._folder)

        return ProjectJudges(rules_for, self._config_files)
