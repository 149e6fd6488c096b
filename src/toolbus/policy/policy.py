"""A policy: rules that allow, ask about or deny the calls of tools, and say why.

**It judges commands; it is no sandbox.** What a call does is read off its words before it runs. A
program does what it was written to do: `make` runs what the Makefile says, an allowed interpreter
runs its script. Files are known by their names: a hard link or a copy made before is another file.
Somebody else on the machine may change a file between the verdict and the call. Against programs
that are hostile themselves use a sandbox, and this beside it.

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

**How a call is judged.** A shell's command line is parsed and taken apart: each command of it, at
any depth, is a part. The call of another tool is one part. A rule speaks of a part if all of its
conditions hold. Deny beats ask, ask beats allow, and what no rule speaks of gets the default. The
call is allowed only if every part is; one denied part denies it.

**Rules that deny, ask or audit** speak of a part if anything of it fits: one of its effects, one
of its files, one of its hosts. Where that cannot be known (a variable for a path), a rule that
denies asks.

**Rules that allow** speak of a part only if all of it surely fits: every effect is in `effects`,
every file in `reads` or `writes`, every host in `hosts`, and nothing about it is unknown. A rule
with one of these keys covers only resources that it names: with `hosts` it allows neither a part
without a host, nor one that reads a file while the rule has no `reads`. Without `effects` such a
rule allows no more than the effects of its other conditions: `command = "git log"` allows no `git
log --output=x`, and `reads = ["docs/**"]` no writing.

**What cannot be known** without running it (a variable for a program, `eval`, inline code, an
option that nobody knows) is asked about, whatever the default, and a rule that denies what is known
of it still wins. Of a tool that is no shell, a rule with `tools` and without `effects`, `reads`,
`writes`, `hosts` allows the call as such.

**An absent argument**, or null: the condition does not hold. A value of the wrong type, or an
expression that fails: the call is denied, and the reason names the rule. A policy file that is
missing, unreadable or invalid is an error where code makes a policy of it, and denies every call
where a configuration names it. A changed file: see `toolbus.policy.policy_versions`.

**No rule lifts** the protection of policy, trust, pin and state files, of the settings of agents'
hosts, and of `toolbus` commands that act for a person: `toolbus.policy.paths.protected_files`.

The file's keys: `toolbus.policy.rules.policy_file`; those of a rule:
`toolbus.policy.rules.tables`. `toolbus policy` writes a first one, checks it, explains its
verdicts and tests it against a table.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence  # noqa: TC003 - a file's settings are of these types
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from toolbus.components.components import AgentComponent
from toolbus.components.marks import guard
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, Ask, Deny
from toolbus.messages.records import ToolCall
from toolbus.policy.call_reader import CallReader, LineMemory
from toolbus.policy.history.counted_calls import CountedCall, call_key, decide, end_call, shell_key
from toolbus.policy.history.session_record import SessionRecord
from toolbus.policy.policy_versions import PolicyVersions
from toolbus.policy.projects import FROM_FILE, WorksInFolder, process_folder, project_of
from toolbus.policy.rules.judge import RANKS, CallJudge, ProjectJudges
from toolbus.policy.rules.policy_file import PolicyFile, digest_in_force, read_table
from toolbus.policy.rules.verdict_texts import asking_rules, notes, question, refusal
from toolbus.policy.skipped_prompts import needs_no_prompt
from toolbus.toml.config_source import config_source

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.messages.records import Message, ToolMessage
    from toolbus.policy.projects import Project
    from toolbus.policy.rules.records import CallVerdict, PolicyRules


_USUAL = {"default": "ask", "project": FROM_FILE}
"""The settings of a policy that stands in a file, but for those that are empty."""


class UnusablePolicy(NamedTuple):
    """Why there are no rules to judge by: every call is denied with this *reason*."""

    reason: str


class _SessionJudges(NamedTuple):
    """The *judges* of a session, one for each version of its rules, and a *notice* of the file.

    With a *refusal* a version cannot be used, and every call is denied for that reason.
    """

    judges: tuple[CallJudge, ...]
    notice: str = ""
    refusal: str = ""

    @property
    def remembers(self) -> bool:
        """Whether verdicts depend on the calls before."""
        return any(judge.remembers for judge in self.judges)

    def keeps_folder(self, tool_name: str) -> bool:
        """Return whether a call of the tool begins where the one before ended."""
        rules = [judge.rules for judge in self.judges if judge.keeps_folders]
        return any(each.facts_of(tool_name).keeps_folder for each in rules)


class Policy(AgentComponent):
    """Judges the calls of tools by rules; see `toolbus.policy.policy`.

    Args:
        file: a policy's file. One that cannot be used raises `LoadError`, with the line and the
            reason; a configuration that names it denies every call with that. Without a file the
            other settings are the policy, as they would stand in one.
        default: what no rule speaks of: "ask", "deny" or "allow".
        rule: the rules, as tables.
        call: the calls that limits name, as tables.
        tools: what tools do that are no shell.
        project: where relative paths of rules begin: "file" is the policy's folder, or without a
            file the current one, "session" the folder in which a session began.
        folder: where relative paths in the arguments of tools begin.
        trust_annotations: tools whose annotations are believed, as globs.
        enabled: as for every component.
        clock: tells the seconds of the epoch, by which limits count.
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
        self._memory, self._clock = LineMemory(), clock
        table = {"default": default, "rule": rule, "call": call, "tools": tools or {}}
        table |= {"project": project, "trust_annotations": trust_annotations}
        if file is not None and {key: table[key] for key in table if table[key]} != _USUAL:
            raise RegistrationError("Policy", "its rules stand in a file or here, not in both")
        self._folder = None if folder is None else os.path.abspath(folder)  # noqa: PTH100 - links stay
        origin = config_source.get()
        self._named = () if origin is None else origin.files
        self._file: PolicyVersions[ProjectJudges | UnusablePolicy] | None = None
        if file is None:
            self._fixed = self._judges_of(partial(read_table, table, None))
        else:
            self._file = PolicyVersions(file.expanduser(), self._read, UnusablePolicy)

    @classmethod
    def read(cls, file: Path | str, *, folder: Path | str | None = None) -> Self:
        """Return the policy of *file*; raises `LoadError` for one that cannot be used."""
        return cls(Path(file), folder=None if folder is None else Path(folder))

    @property
    def rules(self) -> PolicyRules | UnusablePolicy:
        """The rules that a new session begins with, or why there are none."""
        judges = self._fixed if self._file is None else self._file.latest
        return judges if isinstance(judges, UnusablePolicy) else judges.first.rules

    @guard(TOOL_CALL_BEFORE, on_error="closed")
    async def judge_call(self, ctx: EventContext[ToolCall]) -> Deny | Ask | None:
        """Judge a call as it would run."""
        in_force = self._in_force(ctx.scope)
        if in_force.refusal:
            return Deny(in_force.refusal)
        judged = await self._judged(in_force, ctx.value, ctx.tool, ctx.scope)
        if in_force.remembers:
            judged = await self._counted(judged, ctx.scope)
        judge, judgement = max(judged, key=lambda pair: RANKS[pair[1].verdict])
        ctx.note(partial(notes, judge.rules.rules, judgement, in_force.notice))
        match judgement.verdict:
            case "deny":
                return Deny(refusal(judgement, judge.rules.fault))
            case "ask":
                asked = question(judgement, judge.rules.fault)
                rules = digest_in_force([judge.rules for judge, _ in judged])
                return Ask(asked, asking_rules(judgement), rules)
        return None

    async def allows(self, ctx: EventContext[ToolCall]) -> bool:
        """Return whether rules, and not the default alone, allow the call of *ctx*."""
        verdicts = await self._verdicts(ctx.value, ctx.tool, ctx.scope)
        parts = [part for verdict in verdicts for part in verdict.parts]
        return (
            all(verdict.parts for verdict in verdicts)
            and any(parts)
            and all(
                part.decided.status == "allowed" and part.decided.rule is not None for part in parts
            )
        )

    async def skips_prompt(self, call: ToolCall, tool: ToolSpec | None, scope: Scope) -> bool:
        """Return whether a rule with `prompt = "skip"` spares the host's prompt for *call*.

        Then each part of it surely reads inside the folder in which the session began.
        """
        rules = [rule for judge in self._in_force(scope).judges for rule in judge.rules.rules]
        if not any(rule.skips_prompt for rule in rules):
            return False
        verdicts = await self._verdicts(call, tool, scope)
        project = project_of(scope, process_folder())
        return bool(verdicts) and await asyncio.to_thread(
            lambda: all(needs_no_prompt(verdict, project) for verdict in verdicts)
        )

    async def _verdicts(
        self, call: ToolCall, tool: ToolSpec | None, scope: Scope
    ) -> list[CallVerdict]:
        """Return what each version of the rules says of *call*, limits aside.

        Nothing if it does not judge the call, or a version cannot be used.
        """
        in_force = self._in_force(scope)
        if in_force.refusal or not (self.enabled and self.selector.matches(call.name)):
            return []
        return [verdict for _, verdict in await self._judged(in_force, call, tool, scope)]

    async def _judged(
        self, in_force: _SessionJudges, call: ToolCall, tool: ToolSpec | None, scope: Scope
    ) -> list[tuple[CallJudge, CallVerdict]]:
        """Return each judge with what it says of *call*, limits aside."""
        kept_in = None
        if in_force.keeps_folder(call.name):
            record = SessionRecord(await self.state(scope, shared=True).read())
            kept_in = record.shell_folder(shell_key(scope, call.name))
        readers = [CallReader(judge.rules, self._memory) for judge in in_force.judges]
        folders = [self._folder_of(judge.rules, call.name, scope) for judge in in_force.judges]

        def judged() -> list[tuple[CallJudge, CallVerdict]]:
            return [
                (judge, judge.judge(reader.facts(call, tool, scope, folder, kept_in)))
                for judge, reader, folder in zip(in_force.judges, readers, folders, strict=True)
            ]

        # A process or a walk through folders would hold up the loop.
        is_quick = all(reader.is_quick(call, tool) for reader in readers)
        return judged() if is_quick else await asyncio.to_thread(judged)

    @guard(MESSAGE_APPEND_BEFORE, roles="tool", on_error="closed")
    async def remember_end(self, ctx: EventContext[Message]) -> Deny | None:
        """Note how a call ended, if limits of rules may ask."""
        message = ctx.value
        in_force = self._in_force(ctx.scope)
        if message.role != "tool" or not in_force.remembers:
            return None
        rules = [judge.rules for judge in in_force.judges]
        key, now = call_key(ctx.scope, message.tool_call_id), self._clock()

        state = self.state(ctx.scope, shared=True)
        folder = None
        if in_force.keeps_folder(message.tool_name):
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
        """Return the verdicts by what was before, of which the call is a part from now on."""
        judges = [judge for judge, _ in judged]
        # Which names a call has, and what it touches, may depend on files.
        calls = [await asyncio.to_thread(CountedCall.of, *pair, scope) for pair in judged]
        now = self._clock()
        verdicts: list[CallVerdict] = []

        def change(value: Any) -> Any:
            # Another process may be faster: then it is called again, and the last verdicts count.
            nonlocal verdicts
            record = SessionRecord(value)
            verdicts = decide(calls, record, now)
            is_denied = any(verdict.verdict == "deny" for verdict in verdicts)
            return value if is_denied else record.value

        await self.state(scope, shared=True).update(change)
        return list(zip(judges, verdicts, strict=True))

    def _folder_of(self, rules: PolicyRules, tool_name: str, scope: Scope) -> str | None:
        """Return where a tool works, if its caller or the component that it belongs to says so.

        Rules for a session's project take it to be the current folder otherwise.
        """
        if scope.folder:
            return scope.folder
        tool = None if self.host is None else self.host.tools.get(tool_name)
        owner = getattr(tool.run, "__self__", None) if tool is not None else None
        folder = owner.tools_folder if isinstance(owner, WorksInFolder) else None
        return process_folder() if folder is None and rules.works_here else folder

    def _in_force(self, scope: Scope) -> _SessionJudges:
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

        return ProjectJudges(rules_for, self._named)
