"""The base class of all dialects: decodes a host's events and encodes the answers.

Each host has a module with its facts and its own formats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec
from msgspec import Struct

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.hook_events import Ability, Delivery, HookAnswer, HookEvent, HookKind
from toolbus.messages.immutable import replace_surrogates
from toolbus.messages.records import TextPart, ToolCall, ToolResponse

if TYPE_CHECKING:
    from toolbus.hosts.dialects.hook_events import HookDecision

Json: TypeAlias = dict[str, Any]

ALL_ABILITIES: Mapping[Ability, Delivery] = {
    "observe": "yes",
    "rewrite_arguments": "yes",
    "fill_arguments": "yes",
    "deny": "yes",
    "ask": "yes",
    "replace_result": "yes",
    "replace_failure": "yes",
    "add_context": "yes",
    "block_prompt": "yes",
}

MENTIONED = (
    "the text of a file that a prompt names with @ becomes part of the prompt, and hooks do not "
    "see it: let the model read the file with a tool instead"
)
"""A blind spot of several hosts."""

BLOCK: Json = {"decision": "block", "reason": "{value}"}
"""The form of a blocked prompt in several hosts."""

NO_REASON = "toolbus: no reason was given"
SKIPPED = 'allowed by a rule with prompt = "skip"'
"""The reason of the permission that skips the host's own prompt."""
EMPTY = "(toolbus: nothing remains of this result)"
"""The text of an empty result: hosts would substitute a text of their own, or the original."""


class Members(Struct, frozen=True, kw_only=True):
    """The names of members in a host's events; "" for a missing one."""

    session: str = "session_id"
    folder: str = "cwd"
    agent: str = ""
    call_id: str = "tool_use_id"
    tool: str = "tool_name"
    arguments: str = "tool_input"
    failure: str = "error"
    prompt: str = "prompt"
    answer: str = ""


class DialectFacts(Struct, frozen=True, kw_only=True):
    """The facts about a host.

    Args:
        name: the host's name in commands: "claude-code".
        title: the vendor's name of the host: "Claude Code".
        version: the version that was tested; "" for a host known from its documentation only.
        sources: the sources of the facts, beside tests of that version.
        abilities: the actions that it allows to a hook.
        kinds: the kind of each event by name; events of other names are only observed.
        members: the names of members in events.
        failures: events of failed tools whose output always reaches its model.
        takes_context: events whose answers may carry context for the model.
        most_context: the most characters of context.
        also_denied: further events that accept the denial of a call.
        notice: the member of an answer that its user reads; "" if there is none.
        blind_spots: sentences about texts that reach its model without any event, so that no hook
            can redact them.
    """

    name: str
    title: str
    version: str
    sources: tuple[str, ...]
    abilities: Mapping[Ability, Delivery]
    kinds: Mapping[str, HookKind]
    members: Members = Members()
    failures: frozenset[str] = frozenset()
    takes_context: frozenset[str] = frozenset()
    most_context: int = 2**20
    also_denied: frozenset[str] = frozenset()
    notice: str = ""
    blind_spots: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The title, followed by "(untested)" for a host that was not tested."""
        return self.title if self.version else f"{self.title} (untested)"


class Forms(Struct, frozen=True, kw_only=True):
    """The host's formats of answers: JSON templates with "{event}" and "{value}".

    Args:
        denial: denies a call, for a reason.
        rewriting: replaces all arguments of a call.
        refusal: blocks a prompt, for a reason.
        replacement: replaces a result by a text.
        question: asks the host's user before a call.
        permission: skips the host's own prompt, for a reason.
        context: adds context for the model.
    """

    denial: Json
    rewriting: Json
    refusal: Json = {}
    replacement: Json = {}
    question: Json = {}
    permission: Json = {}
    context: Json = {}


class HostDialect(ABC):
    """The encoding of one host's events and answers; a host lacks the *forms* that are {}."""

    facts: ClassVar[DialectFacts]
    forms: ClassVar[Forms]

    # --- overridden by hosts ---------------------------------------------------------------------

    @abstractmethod
    def read_result(self, payload: Mapping[str, Any]) -> ToolResponse:
        """Return the result of the tool in the event *payload*; raises `DecodeError`."""

    def replacement(self, name: str, payload: Any, text: str) -> Json:  # noqa: ARG002
        """Return the answer that replaces a result by *text*; {} if the host has none.

        *payload* is None if it could not be decoded.
        """
        return filled(self.forms.replacement, name, text)

    def changed_result(self, event: HookEvent, response: ToolResponse) -> Json:
        """Return the answer that replaces the result of *event* by *response*."""
        text = response.text if response.text.strip() else EMPTY
        return self.replacement(event.name, event.payload, text)

    def with_context(self, event: HookEvent, answer: Json, context: str) -> Json:
        """Return *answer* with *context* for the model; {} if both cannot be combined."""
        return joined(answer, filled(self.forms.context, event.name, context))

    def can_ask(self, event: HookEvent) -> bool:  # noqa: ARG002 - some hosts decide by the event
        """Return whether the host can ask its user about the call of *event*."""
        return self.facts.abilities["ask"] == "yes"

    def notify(self, reason: str, *undelivered: Ability) -> HookAnswer:
        """Return the notice to the user about an event that should be blocked and cannot be."""
        return self.write({self.facts.notice: reason} if self.facts.notice else {}, *undelivered)

    def write(self, answer: Json, *undelivered: Ability) -> HookAnswer:
        """Return *answer* in the host's encoding; an empty one lets the event pass."""
        if not answer:
            return HookAnswer(undelivered=undelivered)
        return HookAnswer(stdout=msgspec.json.encode(answer), undelivered=undelivered)

    # --- the same for all hosts ------------------------------------------------------------------

    def decode(self, name: str, payload: Mapping[str, Any]) -> HookEvent:
        """Return the event *name* with *payload*.

        Raises `DecodeError` if a required member is missing.
        """
        facts = self.facts
        members, kind = facts.members, facts.kinds.get(name, "other")
        call = response = None
        if kind in {"call", "result"}:
            call = ToolCall(
                id=text_at(payload, members.call_id) if members.call_id else "",
                name=text_at(payload, members.tool),
                arguments=object_at(payload, members.arguments),
            )
        if name in facts.failures:
            error = optional_text(payload, members.failure)
            content = (TextPart(text=error),) if error else ()
            response = ToolResponse(content=content, is_error=True)
        elif kind == "result":
            response = self.read_result(payload)
        text = {"prompt": members.prompt, "answer": members.answer}.get(kind, "")
        return HookEvent(
            host=facts.name,
            name=name,
            kind=kind,
            session_id=text_at(payload, members.session),
            folder=optional_text(payload, members.folder),
            agent=optional_text(payload, members.agent),
            call=call,
            response=response,
            text=optional_text(payload, text),
            payload=payload,
        )

    def encode(self, event: HookEvent, decision: HookDecision) -> HookAnswer:
        """Return the answer that carries *decision*."""
        undelivered: list[Ability] = []
        answer = self._verdict(event, decision, undelivered)
        if context := "\n\n".join(filter(None, decision.context)):
            facts = self.facts
            is_refused = event.kind == "prompt" and bool(answer)
            takes = event.name in facts.takes_context and len(context) <= facts.most_context
            extended = self.with_context(event, answer, context) if takes and not is_refused else {}
            if not extended:
                undelivered.append("add_context")
            answer = extended or answer
        if decision.notice and self.facts.notice:
            answer = {**answer, self.facts.notice: decision.notice}
        return self.write(answer, *undelivered)

    def fail_closed_answer(self, name: str, payload: Any, reason: str) -> HookAnswer:
        """Return the answer that blocks the event *name* after a failure of ours.

        Before a call it is the host's denial; after it, a notice in place of the result, in the
        structure of *payload* if the host needs that. *payload* is None if it was not decoded.
        """
        facts, forms, kind = self.facts, self.forms, self.facts.kinds.get(name, "other")
        if kind == "call" or name in facts.also_denied:
            return self.write(filled(forms.denial, name, _worded(reason)))
        if kind == "prompt":
            return self.write(filled(forms.refusal, name, _worded(reason)))
        if kind != "result":
            return self.notify(reason)
        if name in facts.failures:
            return self.notify(reason, "replace_failure")
        answer = self.replacement(name, payload, _worded(reason))
        return self.write(answer) if answer else self.notify(reason, "replace_result")

    def _verdict(
        self, event: HookEvent, decision: HookDecision, undelivered: list[Ability]
    ) -> Json:
        """Return the answer without context; add undeliverable parts to *undelivered*."""
        match event.kind:
            case "call":
                return self._call_verdict(event, decision, undelivered)
            case "result":
                return self._result_verdict(event, decision, undelivered)
            case "prompt":
                reason = decision.asked if decision.denied is None else decision.denied
                if reason is None:
                    return {}
                return filled(self.forms.refusal, event.name, _worded(reason))
        if decision.denied is not None:
            undelivered.append("deny")
        return {}

    def _call_verdict(
        self, event: HookEvent, decision: HookDecision, undelivered: list[Ability]
    ) -> Json:
        forms, question, denied = self.forms, decision.asked, decision.denied
        if denied is None and question is not None and not self.can_ask(event):
            undelivered.append("ask")
            denied = question
        if denied is None:
            denied = _other_tool(event, decision)
        if denied is not None:
            return filled(forms.denial, event.name, _worded(denied))
        answer: Json = {}
        if decision.call is not None:
            answer = filled(forms.rewriting, event.name, decision.call.arguments)
        if question is not None:
            return joined(answer, filled(forms.question, event.name, _worded(question)))
        if decision.skips_prompt:
            return joined(answer, filled(forms.permission, event.name, SKIPPED))
        return answer

    def _result_verdict(
        self, event: HookEvent, decision: HookDecision, undelivered: list[Ability]
    ) -> Json:
        denied, after = decision.denied, decision.response
        if denied is None and (after is None or _is_same(event.response, after)):
            return {}
        if event.name in self.facts.failures:
            undelivered.append("replace_failure")
            return {}
        if denied is not None:
            answer = self.replacement(event.name, event.payload, _worded(denied))
        else:
            assert after is not None  # noqa: S101 - checked above
            answer = self.changed_result(event, after)
        if not answer:
            undelivered.append("replace_result")
        return answer


def filled(form: Json, name: str, value: Any) -> Json:
    """Return *form* with the event's *name* and *value* filled in."""
    filling = {"{event}": name, "{value}": value}
    return {
        key: filled(item, name, value) if isinstance(item, dict) else filling.get(item, item)
        for key, item in form.items()
    }


def specific(**members: Any) -> Json:
    """Return a form with *members* below `hookSpecificOutput`, as in Claude Code's answers."""
    return {"hookSpecificOutput": {"hookEventName": "{event}", **members}}


def joined(first: Json, second: Json) -> Json:
    """Return the members of both answers, with objects that both have merged."""
    both = {**first, **second}
    for key in first.keys() & second.keys():
        if isinstance(first[key], dict) and isinstance(second[key], dict):
            both[key] = {**first[key], **second[key]}
    return both


def text_at(payload: Mapping[str, Any], name: str) -> str:
    """Return the text *name* of *payload*; raises `DecodeError` if it is missing or empty."""
    text = payload.get(name)
    if isinstance(text, str) and text:
        return replace_surrogates(text)
    raise DecodeError(f"expected a text, got {_kind(text)}", f"$.{name}")


def optional_text(payload: Mapping[str, Any], name: str) -> str:
    """Return the text *name* of *payload*; "" if it is missing or null, or *name* is ""."""
    text = payload.get(name) if name else None
    if text is None:
        return ""
    if isinstance(text, str):
        return replace_surrogates(text)
    raise DecodeError(f"expected a text, got {_kind(text)}", f"$.{name}")


def object_at(payload: Mapping[str, Any], name: str) -> Json:
    """Return the object *name* of *payload*; raises `DecodeError` if it is missing."""
    value = payload.get(name)
    if isinstance(value, dict):
        return value
    raise DecodeError(f"expected an object, got {_kind(value)}", f"$.{name}")


def _other_tool(event: HookEvent, decision: HookDecision) -> str | None:
    """Return why the call of *event* may not run, if handlers changed its tool."""
    if decision.call is None or event.call is None or decision.call.name == event.call.name:
        return None
    return (
        f"toolbus: a handler changed the tool {event.call.name!r} to "
        f"{decision.call.name!r}, which a hook cannot do"
    )


def _worded(reason: str) -> str:
    # With a blank reason several hosts let the event pass.
    return reason if reason.strip() else NO_REASON


def _is_same(before: ToolResponse | None, after: ToolResponse) -> bool:
    if before is None:
        return False
    return (before.content, before.structured) == (after.content, after.structured)


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
