"""The pins component: tools that changed since a person accepted them are hidden.

```toml
[[component]]                           # in a toolbus.toml, also for the proxy
use = "pins"
settings = { file = "toolbus.lock" }    # written by `toolbus pin`
```

A tool that changed, is new, or took another tool's name is hidden from the model. A call of it
requires approval, with the difference and its suspicious texts shown, and is denied without an
approver. An approval accepts the current tool for the rest of the session: if the tool was hidden,
that call still ends as a call of an unknown tool, and the tool is visible afterwards. The proxy
also withholds changed server instructions and changed prompts.

A missing or invalid lock file hides every tool and denies every call. The file is read once, when
the component is constructed.

**Limits.** Pins cover the self-description of tools, not their behaviour: a server may change its
behaviour under the same description. The order of keys in JSON objects does not count. Members for
clients, such as icons, `_meta` and unknown annotations, count in the proxy only, and may be
missing; a lock file written before they were pinned does not cover them. The content of a prompt,
resources and the server's own name are not pinned. In the proxy a server without a name counts as
any pinned server, unless the setting *server* names it. Sub-agents are judged by the same file,
whatever the source of their tools.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.components.adapters import ToolAdapter
from toolbus.components.call_facts import FactSources
from toolbus.components.components import AgentComponent
from toolbus.components.marks import guard, on
from toolbus.errors import ConfigurationError, FreezeError
from toolbus.events.call_values import ToolSpec
from toolbus.events.catalogue import (
    MCP_REQUEST_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOLS_PROVIDE,
    Ask,
    Deny,
)
from toolbus.policy.pins.first_sight import FirstSight
from toolbus.policy.pins.pin_differences import (
    PinnedNames,
    brief_name,
    describe_source,
    difference_rows,
    item_differences,
)
from toolbus.policy.pins.pinned_items import (
    LOCK_NAME,
    LONGEST_LOCK,
    SEPARATOR,
    PinnedServer,
    ToolPins,
    pin_prompt,
    pin_tool,
    read_lock,
)
from toolbus.toml.config_source import config_source
from toolbus.toml.files import read_bytes

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.adapters import AdapterContext
    from toolbus.components.components import Host
    from toolbus.events.catalogue import McpRequest, Scope, ToolCallOutcome
    from toolbus.messages.records import ToolCall, ToolResponse

logger = logging.getLogger("toolbus")

_FIRST = 1_000
"""Runs before adapters reword the texts of servers."""

_HANDSHAKES = ("initialize", "server/discover")
_PROMPTS = "prompts/list"
_MOST_SESSIONS, _MOST_TOOLS = 1_000, 20_000
_MOST_LOGGED = 5
"""Tools named in one line of the log."""

_ACCEPTS = "approving this call accepts the current tool for the rest of the session"
_APPROVED = frozenset({"ok", "error", "timeout", "answered", "unknown_tool"})
"""The statuses of an approved call."""


class PinObjection(NamedTuple):
    """The difference of a tool from its pin: a *reason*, and *rows* of differences for a person.

    *digest* is the digest of the current tool.
    """

    reason: str
    rows: tuple[str, ...]
    digest: str

    @property
    def question(self) -> str:
        """The reason and the difference, for a person."""
        return "\n".join([self.reason, *self.rows])


class PinJudge:
    """Compares tools with *pins*; tools of an unnamed server are compared with *server* or all."""

    def __init__(self, pins: ToolPins, server: str | None = None) -> None:
        self._sources, self._names = pins.sources, PinnedNames(pins)
        self._sight = FirstSight(pins)
        self._unnamed = dict(pins.servers)
        if server is not None:
            self._unnamed = {server: pins.servers.get(server, PinnedServer())}
        self._judged: dict[tuple[str, str | None], tuple[ToolSpec, PinObjection | None]] = {}

    def judge_tool(self, spec: ToolSpec, source: str | None) -> PinObjection | None:
        """Return how the tool of *spec* differs from its pin, or None.

        *source* is "" for the program's own tools, the name of a server, or None if unknown.
        """
        key = spec.name, source
        judged = self._judged.get(key)
        # Not `==`, for which 1 is True; a toolset returns the same object until it changes.
        if judged is None or judged[0] is not spec:
            if len(self._judged) >= _MOST_TOOLS:
                self._judged.clear()
            judged = self._judged[key] = spec, self._objection(spec, source)
        return judged[1]

    def judge_nested(self, spec: ToolSpec) -> PinObjection | None:
        """Return how the tool of *spec*, of a sub-agent, differs from every pin, or None."""
        for source, pinned in self._sources.items():
            former = pinned.tools.get(spec.name)
            if former is not None and former.allows(pin_tool(spec, is_own=not source)):
                return None
        return self._objection(spec, None)

    def was_pinned(self, name: str) -> bool:
        """Return whether the tool *name* of an unnamed server matched its pin when listed."""
        judged = self._judged.get((name, None))
        return judged is not None and judged[1] is None

    def _objection(self, spec: ToolSpec, source: str | None) -> PinObjection | None:
        item, name = pin_tool(spec, is_own=source == ""), brief_name(spec.name)
        servers = self._unnamed
        if source is not None:
            servers = {source: self._sources.get(source, PinnedServer())}
        pinned = {
            each: of.tools[spec.name] for each, of in servers.items() if spec.name in of.tools
        }
        if len(pinned) > 1:
            names = ", ".join([describe_source(each) for each in pinned])
            reason = f"tool {name!r} is pinned for {names}; choose with the setting `server`"
            return PinObjection(reason, (), item.digest)
        former = next(iter(pinned.values()), None)
        if former is not None and former.allows(item):
            return None
        reason = f"tool {name!r} has changed since it was pinned"
        if former is None:
            taken = self._names.taken(spec.name, source)
            reason = f"tool {name!r} is not pinned{', and ' if taken else ''}{taken}"
        server = self._server_of(spec.name, source)
        warnings = self._sight.suspicious_texts(spec.name, item, server, former)
        rows = difference_rows(item_differences(former, item))
        return PinObjection(reason, (*[f"! {each}" for each in warnings], *rows), item.digest)

    def _server_of(self, name: str, source: str | None) -> str | None:
        """Return the server of the tool *name* of *source*, also from a proxy, or None."""
        if source is not None:
            return source
        if len(self._unnamed) == 1:
            return next(iter(self._unnamed))
        prefix = name.partition(SEPARATOR)[0]
        return prefix if prefix in self._unnamed else None

    def knows_prompt(self, name: str | None) -> bool:
        """Return whether a prompt *name* was pinned."""
        return any(name in of.prompts for of in self._unnamed.values())

    def is_pinned_prompt(self, prompt: Any) -> bool:
        """Return whether *prompt*, an item of `prompts/list`, equals its pin."""
        name = prompt.get("name") if isinstance(prompt, Mapping) else None
        if not isinstance(name, str):
            return False
        try:
            item = pin_prompt(name, prompt)
        except (FreezeError, TypeError, ValueError):
            return False
        known = [of.prompts[name] for of in self._unnamed.values() if name in of.prompts]
        return any(each.allows(item) for each in known)

    def are_pinned_instructions(self, text: str) -> bool:
        """Return whether *text* is the pinned instructions of one server or of several joined.

        A proxy joins instructions as sections, each at most once, separated by an empty line.
        """
        sections = {
            name: str(of.instructions.fields.get("text"))
            for name, of in self._unnamed.items()
            if of.instructions is not None
        }
        if not text or text in sections.values():
            return True
        remaining = [
            f"Of the tools and prompts that begin with {name}{SEPARATOR}: {section}\n\n"
            for name, section in sections.items()
        ]
        text += "\n\n"
        while fitting := [section for section in remaining if text.startswith(section)]:
            # The text of one server may begin with the whole text of another.
            longest = max(fitting, key=len)
            remaining.remove(longest)
            text = text.removeprefix(longest)
        return not text


class PinnedSession:
    """The state of one session: objections by tool, open questions, and accepted tools."""

    def __init__(self) -> None:
        self.objections: dict[str, PinObjection | None] = {}
        self.asked: dict[str, tuple[str, str]] = {}
        self.accepted: set[tuple[str, str]] = set()
        self.changed_prompts: set[str] = set()

    def remember(self, name: str, objection: PinObjection | None) -> None:
        """Store the objection to the tool *name*; the store is cleared when full."""
        if len(self.objections) >= _MOST_TOOLS and name not in self.objections:
            self.objections.clear()
        self.objections[name] = objection


class PinTools(AgentComponent):
    """Hides tools that changed since they were pinned; see `toolbus.policy.pins.pin_tools`.

    Args:
        file: the lock file; default: `toolbus.lock` beside the configuration, or here without one.
        server: the name in the lock file of a server without a name, as in a proxy.
        enabled: as for every component.
    """

    def __init__(
        self,
        file: Path | None = None,
        *,
        server: str | None = None,
        enabled: bool | None = None,
    ) -> None:
        super().__init__(enabled=enabled)
        self._reason, self._is_logged = "", False
        self._sessions: OrderedDict[tuple[str, str], PinnedSession] = OrderedDict()
        pins = ToolPins()
        try:
            pins = read_lock(*_read(file))
        except ConfigurationError as error:
            self._reason = f"the lock file cannot be read, so every call is denied: {error}"
        self._judge = PinJudge(pins, server)
        if count := pins.uncovered:
            text = (
                "%d pins do not cover icons, `_meta` and unknown members; run `toolbus pin` again"
            )
            logger.warning(text, count)
        self.register_tool_adapter(_ServerTexts(self))

    def subscribe(self, host: Host) -> None:
        """Tell the components on the bus of *host* which tools equal their pins."""
        super().subscribe(host)
        pins = host.bus.shared(FactSources).pins
        pins.append(self)
        self._undo.callback(pins.remove, self)

    def is_pinned(self, spec: ToolSpec, scope: Scope) -> bool:
        """Return whether the tool of *spec* equals its pin."""
        return self.enabled and not self._reason and self._objection(spec, scope) is None

    @on(TOOLS_PROVIDE, priority=_FIRST, on_error="closed")
    def hide_tools(self, ctx: EventContext[tuple[ToolSpec, ...]]) -> tuple[ToolSpec, ...] | None:
        """Hide tools that differ from their pins, and store the reasons."""
        # Hiding, storing and logging depend on the same objection, so one loop does all three.
        session, hidden, reasons = self._session(ctx.scope), set[str](), list[str]()
        # The original specs, before any handler reworded them.
        for spec in [spec for spec in ctx.original if self.selector.matches(spec.name)]:
            objection = self._objection(spec, ctx.scope)
            if objection is not None and (spec.name, objection.digest) not in session.accepted:
                hidden.add(spec.name)
                if session.objections.get(spec.name) != objection:
                    reasons.append(objection.reason)
            # If two tools are listed under one name, the changed tool counts.
            if objection is not None or spec.name not in hidden:
                session.remember(spec.name, objection)
        self._log_hidden(reasons)
        if self._reason:
            hidden = {spec.name for spec in ctx.value if self.selector.matches(spec.name)}
        remaining = tuple([spec for spec in ctx.value if spec.name not in hidden])
        return remaining if len(remaining) < len(ctx.value) else None

    @guard(TOOL_CALL_BEFORE, on_error="closed")
    def judge_call(self, ctx: EventContext[ToolCall]) -> Deny | Ask | None:
        """Require approval for a call of a changed tool."""
        call, session = ctx.value, self._session(ctx.scope)
        if self._reason:
            self._log_problem()
            return Deny("the lock file cannot be read, so every call is denied", self._reason)
        objections = (session.objections.get(call.name), self._present_objection(ctx))
        for objection in objections:
            if objection is not None and (call.name, objection.digest) not in session.accepted:
                session.asked[call.id] = (call.name, objection.digest)
                # An approval covers the current tool only.
                rule = f"pin of {call.name}"
                return Ask(f"{objection.question}\n{_ACCEPTS}", rule, objection.digest)
        return None

    def _present_objection(self, ctx: EventContext[ToolCall]) -> PinObjection | None:
        """Judge the current tool of a call: it may have changed since it was advertised."""
        name, scope, spec = ctx.value.name, ctx.scope, ctx.tool
        tool = None if self.host is None or scope.lineage else self.host.tools.get(name)
        if tool is not None:
            return self._objection(tool.spec, scope)
        # A proxy knows only the listed tools of its server, and the tools advertised in another
        # session of the same client may have been reworded since.
        is_listed = name in self._session(scope).objections or self._judge.was_pinned(name)
        if is_listed or spec is None:
            return None
        return self._objection(spec if spec.name == name else ToolSpec(name=name), scope)

    @on(TOOL_CALL_AFTER)
    def note_answer(self, ctx: EventContext[ToolCallOutcome]) -> None:
        """Store an approval for the rest of the session."""
        session = self._session(ctx.scope)
        accepted = session.asked.pop(ctx.value.requested.id, None)
        if accepted is not None and ctx.value.status in _APPROVED:
            session.accepted.add(accepted)

    @guard(MCP_REQUEST_BEFORE, on_error="closed")
    def judge_prompt(self, ctx: EventContext[McpRequest]) -> Deny | None:
        """Refuse prompts that were not pinned."""
        request = ctx.value
        if request.method != "prompts/get":
            return None
        if self._reason:
            return Deny("the lock file cannot be read", self._reason)
        if not self._judge.knows_prompt(request.name):
            return Deny("this prompt is not pinned")
        if request.name in self._session(ctx.scope).changed_prompts:
            return Deny("this prompt has changed since it was pinned")
        return None

    def filter_server_text(
        self, response: ToolResponse, method: str, scope: Scope
    ) -> ToolResponse | None:
        """Return the filtered answer to *method*, None if unchanged or if *method* is our tool."""
        if self.host is not None and self.host.tools.get(method) is not None:
            return None
        if method == _PROMPTS:
            return self._filter_prompts(response, self._session(scope))
        if self._judge.are_pinned_instructions(response.text) or not response.content:
            return None
        self._log_problem()
        logger.warning("withheld: the server's instructions have changed since they were pinned")
        return replace(response, content=())

    def _filter_prompts(
        self, response: ToolResponse, session: PinnedSession
    ) -> ToolResponse | None:
        body = response.structured
        listed = body.get("prompts") if isinstance(body, Mapping) else None
        if not isinstance(body, Mapping) or not isinstance(listed, tuple | list):
            return None
        are_pinned = [self._judge.is_pinned_prompt(each) for each in listed]
        if all(are_pinned):
            return None
        hidden = [each for each, is_pinned in zip(listed, are_pinned, strict=True) if not is_pinned]
        names = [str(each.get("name")) for each in hidden if isinstance(each, Mapping)]
        session.changed_prompts.update(names[: _MOST_TOOLS - len(session.changed_prompts)])
        self._log_problem()
        logger.warning("hidden: %d prompts of the server differ from the pinned ones", len(hidden))
        return replace(response, structured={**body, "prompts": list(compress(listed, are_pinned))})

    def _objection(self, spec: ToolSpec, scope: Scope) -> PinObjection | None:
        if scope.lineage:
            return self._judge.judge_nested(spec)
        return self._judge.judge_tool(spec, self._source(spec))

    def _source(self, spec: ToolSpec) -> str | None:
        """Return the source of the tool of *spec*, None if only the host knows it."""
        if self.host is None:
            return None
        source = self.host.tools.source_of(spec.name)
        tool = self.host.tools.get(spec.name)
        # A proxied server may have a tool with the name of one of ours.
        is_ours = tool is not None and (source or tool.spec is spec)
        return source if is_ours else None

    def _session(self, scope: Scope) -> PinnedSession:
        key = scope.session_id, scope.agent_id
        session = self._sessions.setdefault(key, PinnedSession())
        self._sessions.move_to_end(key)
        if len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def _log_hidden(self, reasons: list[str]) -> None:
        self._log_problem()
        if reasons and not self._reason:
            remaining = len(reasons) - _MOST_LOGGED
            further = f"; and {remaining:,} more" if remaining > 0 else ""
            text = "; ".join(reasons[:_MOST_LOGGED])
            logger.warning("hidden: %s%s; see `toolbus pin --check`", text, further)

    def _log_problem(self) -> None:
        if self._reason and not self._is_logged:
            self._is_logged = True
            logger.error(self._reason)


class _ServerTexts(ToolAdapter):
    """Passes the self-description of a proxied server, by method, to *pins*."""

    name = "pins"
    tools = (*_HANDSHAKES, _PROMPTS)

    def __init__(self, pins: PinTools) -> None:
        self._pins = pins

    def adapt_response(
        self, response: ToolResponse, call: ToolCall, ctx: AdapterContext
    ) -> ToolResponse | None:
        return self._pins.filter_server_text(response, call.name, ctx.scope)


def _read(file: Path | None) -> tuple[Path, bytes]:
    """Return the lock file and its bytes; raises `ConfigurationError`, also if untrusted."""
    origin = config_source.get()
    folder = Path() if origin is None else origin.files[0].parent
    path = folder / LOCK_NAME if file is None else file
    data = read_bytes(path, LONGEST_LOCK)
    reason = None if origin is None else origin.check_first(path, data)
    if reason is not None:
        way_out = "" if file else f"; set `settings = {{ file = {LOCK_NAME!r} }}` and trust that"
        raise ConfigurationError(f"{reason}{way_out}", str(path))
    return path, data
