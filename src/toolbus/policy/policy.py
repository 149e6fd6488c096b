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
every file in `reads` or `writes`, every host in `hosts`, and nothing about it is unknown. Without
`effects` such a rule allows no more than what its other conditions speak of: `command = "git log"`
allows no `git log --output=x`, and `reads = ["docs/**"]` no writing.

**What cannot be known** without running it (a variable for a program, `eval`, inline code, an
option that nobody knows) is asked about, whatever the default, and a rule that denies what is known
of it still wins. Of a tool that is no shell, a rule with `tools` and without `effects`, `reads`,
`writes`, `hosts` allows the call as such.

**An absent argument**, or null: the condition does not hold. A value of the wrong type, or an
expression that fails: the call is denied, and the reason names the rule. A policy file that is
missing, unreadable or invalid denies every call.

The file's keys: `toolbus.policy.documents`; those of a rule: `toolbus.policy.rule_tables`. `toolbus
policy` writes a first one, checks it, explains its verdicts and tests it against a table.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence  # noqa: TC003 - a file's settings are of these types
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from toolbus.components.components import AgentComponent
from toolbus.components.marks import guard
from toolbus.errors import LoadError, RegistrationError
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, Ask, Deny
from toolbus.policy.call_reading import CallReader, LineMemory
from toolbus.policy.documents import read_policy, read_table
from toolbus.policy.history.counting import call_key, counted, end_call
from toolbus.policy.history.session_record import SessionRecord
from toolbus.policy.judging import CallJudge
from toolbus.policy.wording import notes, question, refusal

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import Message, ToolCall
    from toolbus.policy.call_reading import UnjudgedCall
    from toolbus.policy.findings import CallVerdict
    from toolbus.policy.rules import PolicyRules

logger = logging.getLogger("toolbus")


class UnusablePolicy(NamedTuple):
    """Why there are no rules to judge by: every call is denied with this *reason*."""

    reason: str


class Policy(AgentComponent):
    """Judges the calls of tools by rules; see `toolbus.policy.policy`.

    Args:
        file: a policy's file. What is wrong with it raises nothing: every call is denied, with the
            file, the line and the reason. Without it the other settings are the policy, as they
            would stand in a file; what is wrong with them raises.
        default: what no rule speaks of: "ask", "deny" or "allow".
        rule: the rules, as tables.
        call: the calls that limits name, as tables.
        tools: what tools do that are no shell.
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
        folder: Path | None = None,
        trust_annotations: Sequence[str] = (),
        enabled: bool | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(enabled=enabled)
        self._memory, self._clock = LineMemory(), clock
        rules: PolicyRules | UnusablePolicy
        if file is None:
            table = {"default": default, "rule": rule, "call": call, "tools": tools or {}}
            rules = read_table({**table, "trust_annotations": trust_annotations})
        elif rule or call or tools or trust_annotations or default != "ask":
            raise RegistrationError("Policy", "its rules stand in a file or here, not in both")
        else:
            rules = _read(file)
        if folder is not None and not isinstance(rules, UnusablePolicy):
            rules = rules._replace(folder=os.path.abspath(folder))  # noqa: PTH100 - links stay
        self.put_in_force(rules)

    @classmethod
    def read(cls, file: Path | str, *, folder: Path | str | None = None) -> Self:
        """Return the policy of *file*; what is wrong with that denies every call."""
        return cls(Path(file), folder=None if folder is None else Path(folder))

    @property
    def rules(self) -> PolicyRules | UnusablePolicy:
        """The rules in force, or why there are none."""
        return (
            self._in_force if isinstance(self._in_force, UnusablePolicy) else self._in_force.rules
        )

    def put_in_force(self, rules: PolicyRules | UnusablePolicy) -> None:
        """Judge by *rules* from now on; a call that is being judged has those it began with."""
        self._in_force: CallJudge | UnusablePolicy = (
            rules if isinstance(rules, UnusablePolicy) else CallJudge(rules)
        )

    @guard(TOOL_CALL_BEFORE, on_error="closed")
    async def judge_call(self, ctx: EventContext[ToolCall]) -> Deny | Ask | None:
        """Judge a call as it would run."""
        judge = self._in_force
        if isinstance(judge, UnusablePolicy):
            return Deny(judge.reason)
        reader = CallReader(judge.rules, self._memory)
        unjudged = reader.read(ctx.value, ctx.tool, ctx.scope)
        if reader.is_quick(unjudged):
            judgement = judge.judge(reader.facts(unjudged))
        else:
            # A process or a walk through folders would hold up the loop.
            judgement = await asyncio.to_thread(_judge, judge, reader, unjudged)
        if _remembers(judge.rules):
            judgement = await self._counted(judgement, judge.rules, ctx.scope)
        ctx.note(partial(notes, judge.rules.rules, judgement))
        match judgement.verdict:
            case "deny":
                return Deny(refusal(judgement))
            case "ask":
                return Ask(question(judgement))
        return None

    @guard(MESSAGE_APPEND_BEFORE, roles="tool", on_error="closed")
    async def remember_end(self, ctx: EventContext[Message]) -> Deny | None:
        """Note how a call ended, if limits of rules may ask."""
        rules, message = self.rules, ctx.value
        if isinstance(rules, UnusablePolicy) or message.role != "tool" or not _remembers(rules):
            return None
        key, now = call_key(ctx.scope, message.tool_call_id), self._clock()

        def change(value: Any) -> Any:
            record = SessionRecord(value)
            if record.running(key) is None:
                return value
            end_call(rules, record, key, message, now)
            return record.value

        await self.state(ctx.scope, shared=True).update(change)
        return None

    async def _counted(
        self, judgement: CallVerdict, rules: PolicyRules, scope: Scope
    ) -> CallVerdict:
        """Return the verdict by what was before, of which the call is a part from now on."""
        # Which names a call has may depend on files, too.
        call = await asyncio.to_thread(counted, judgement, rules, scope)
        now, verdicts = self._clock(), [judgement]

        def change(value: Any) -> Any:
            record = SessionRecord(value)
            verdicts.append(call.decide(record, now))
            return value if verdicts[-1].verdict == "deny" else record.value

        await self.state(scope, shared=True).update(change)
        return verdicts[-1]


def _remembers(rules: PolicyRules) -> bool:
    return any(rule.limits for rule in rules.rules)


def _judge(judge: CallJudge, reader: CallReader, unjudged: UnjudgedCall) -> CallVerdict:
    return judge.judge(reader.facts(unjudged))


def _read(file: Path) -> PolicyRules | UnusablePolicy:
    """Return the rules of *file*, or what is wrong with it, which is logged."""
    try:
        return read_policy(file)
    except LoadError as error:
        reason = f"the policy cannot be used, so every call is denied: {error}"
    logger.error(reason)
    return UnusablePolicy(reason)
