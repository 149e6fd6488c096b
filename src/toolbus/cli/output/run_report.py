"""What a run tells: the model's text on standard output, calls and counts beside it, or JSON."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from toolbus.cli.output.blocks import describe_call, print_json
from toolbus.cli.output.screen import open_screen
from toolbus.components.components import AgentComponent
from toolbus.components.marks import on
from toolbus.events.catalogue import MESSAGE_APPEND_AFTER, MODEL_CALL_DELTA
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage
from toolbus.settings.spans import Span, sanitize
from toolbus.settings.visible_text import shorten_visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolbus.approvals.questions import Question
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.cli.output.deferred_output import DeferredOutput
    from toolbus.cli.output.stream import Output
    from toolbus.config.prices import Price
    from toolbus.events.catalogue import Ask, ModelDelta, RunResult
    from toolbus.messages.records import Message

NOBODY = "approval is needed, and there is no terminal to ask at"
"""The reason of what is denied because there is nobody to ask."""

_COUNTS = (
    ("input_tokens", "in"),
    ("cache_read_tokens", "from the cache"),
    ("output_tokens", "out"),
)

_DECIMALS = 6
"""Of a cost that is less than 1: a run may well cost a hundredth of a cent."""


class RunReport(AgentComponent):
    """Tells of text as it is released, and of each message once it is in the transcript.

    Whoever judges either has done so. A model's text goes to *output*, all else to *side*.
    """

    def __init__(self, output: Output, side: DeferredOutput) -> None:
        super().__init__()
        self._output, self._side, self._screen = output, side, open_screen(side)
        self._is_open, self._unasked = False, ""
        self.price: Price | None = None
        self.store: str | None = None
        # The text of an answer that is not in the transcript yet, and which one was the last.
        self._released: list[str] = []
        self._appended: tuple[str, int] | None = None

    @on(MODEL_CALL_DELTA)
    def grow(self, ctx: EventContext[ModelDelta]) -> None:
        """Tell of a piece of an answer of this agent, unless that was shown whole already."""
        scope, delta = ctx.scope, ctx.value
        is_new = not scope.lineage and self._appended != (scope.run_id, scope.turn)
        if is_new and delta.kind == "text" and delta.text:
            self._released.append(delta.text)
            self.text(delta.text, scope.turn)
        elif delta.kind == "void" and self._released:
            self.void(scope.turn)

    @on(MESSAGE_APPEND_AFTER)
    def show(self, ctx: EventContext[Message]) -> None:
        """Tell of a message of this agent, not of those of agents below it."""
        if ctx.scope.lineage:
            return
        match ctx.value:
            case AssistantMessage() as message:
                self._appended = (ctx.scope.run_id, ctx.scope.turn)
                self._show_rest(message.text, ctx.scope.turn)
                for call in message.tool_calls:
                    self.call(call)
            case ToolMessage() as message:
                self.result(message)

    def _show_rest(self, text: str, turn: int) -> None:
        """Write what was held of an answer's *text*, all of it if something else was shown."""
        shown = "".join(self._released)
        if not text.startswith(shown):
            shown = ""
            self.end_line()
        if len(text) > len(shown):
            self.text(text[len(shown) :], turn)
        self.end_line()

    def start(self, **facts: object) -> None:
        """Tell that a session is open."""

    def text(self, text: str, _turn: int) -> None:
        """Write what the model says; what others write beside it waits for the end of the line."""
        if self._output.is_terminal:
            text = "\n".join([sanitize(line) for line in text.split("\n")])
        lines, end, unfinished = text.rpartition("\n")
        if end:
            self._output.write(lines + end)
            self._close_line()
        if unfinished:
            if not self._is_open:
                self._is_open = True
                self._side.hold()
            self._output.write(unfinished)

    def void(self, _turn: int) -> None:
        """Say that the text of this turn so far is void: the answer broke off, or was refused."""
        self.end_line()
        self._screen.whole("toolbus: the text above is void: its answer broke off or was refused")

    def end_line(self) -> None:
        """End the line of text that stands there, for no more of this answer comes."""
        self._released.clear()
        if self._is_open:
            self._output.write("\n")
            self._close_line()

    def _close_line(self) -> None:
        if self._is_open:
            self._is_open = False
            self._side.release()

    def call(self, call: ToolCall) -> None:
        """Write what the model asks for, in a line that may be cut."""
        self._screen.line(Span("→ ", "asked"), *describe_call(call))

    def answered(self, _question: Question) -> None:
        """Say nothing: the person knows how a question was answered, and the call tells."""

    def unasked(self, _ask: Ask, _call: ToolCall | None, reason: str) -> None:
        """Remember why nobody could be asked."""
        self._unasked = reason

    def result(self, message: ToolMessage) -> None:
        """Write how a call ended, in a line."""
        lines = message.text.splitlines()
        name = shorten_visible(message.tool_name)
        if is_error(message):
            self._screen.line(Span("✗ ", "bad"), f"{name}: {lines[0] if lines else 'failed'}")
        else:
            text = f"{len(lines):,} line{'s' * (len(lines) != 1)}"
            if lines and message.tool_name in {"write_file", "edit_file"}:
                text = lines[0]
            self._screen.line(Span("✓ ", "good"), f"{name}: {text}")

    def end(self, result: RunResult, session: str | None) -> None:
        """Write how the run ended, unless all is well, and its counts as far as they are known."""
        if result.pending:
            self._pending(result.pending, session)
        elif result.status != "ok":
            reason = result.reason or "no reason was given"
            self._screen.whole(f"toolbus: the run ended as {result.status!r}: {reason}")
        if self._unasked:
            self._screen.whole(
                f"toolbus: {self._unasked}; --store keeps the question for `toolbus approvals`, "
                "--yes answers yes, see `toolbus run --help`"
            )
        counts = [
            f"{result.usage[key]:,} {words}" for key, words in _COUNTS if result.usage.get(key)
        ]
        parts = [f"tokens: {', '.join(counts)}"] if counts else []
        parts += [self._cost(self.price, result.usage)] if counts and self.price else []
        parts += [f"session {session}"] if session else []
        if parts:
            self._screen.whole("; ".join(parts), style="dim")

    def _pending(self, question_ids: Sequence[str], session: str | None) -> None:
        """Write which questions wait, and how a person answers them and goes on."""
        for question_id in question_ids:
            self._screen.whole(f"toolbus: question {question_id} waits for a person")
        store = "STORE" if self.store is None else shlex.quote(self.store)
        name = shlex.quote(session or "SESSION")
        self._screen.whole(f"  see them: toolbus approvals --store {store}")
        self._screen.whole(f"  go on:    toolbus run --store {store} --resume {name}")
        self._screen.whole("            and --model, --tools and the like as in this run")

    def _cost(self, price: Price, usage: Mapping[str, int]) -> str:
        amount, unknown = price.cost(usage)
        if unknown:
            return f"cost unknown, for there is no price of {', '.join(unknown)}"
        return f"cost: {amount:,.{_DECIMALS if amount < 1 else 2}f} {price.currency}"

    def stopped(self, session: str | None) -> None:
        """Write which session a run was of that was interrupted: it can be resumed."""
        if session:
            self._screen.whole(f"session {session}", style="dim")

    def failed(self, reason: str) -> None:
        """Write why a run ended with an error."""
        self._screen.whole(f"toolbus: {reason}")


class JsonRunReport(RunReport):
    """Writes one JSON object a line to *output*, and to *side* only why a run failed."""

    def start(self, **facts: object) -> None:
        """Write the facts of the session."""
        self._write("start", **facts)

    def text(self, text: str, turn: int) -> None:
        """Write a piece of what the model says in its answer number *turn* of the run."""
        self._write("text", turn=turn, text=text)

    def void(self, turn: int) -> None:
        """Write that the text of the answer number *turn* so far is void."""
        self.end_line()
        self._write("void", turn=turn)

    def call(self, call: ToolCall) -> None:
        """Write what the model asks for; *raw* is there if the arguments are no JSON object."""
        raw = {} if call.raw is None else {"raw": call.raw}
        self._write("call", id=call.id, name=call.name, arguments=call.arguments, **raw)

    def answered(self, question: Question) -> None:
        """Write what was asked about, the call as it would run, the answer, and by whom."""
        call = ToolCall(id=question.call_id, name=question.tool, arguments=question.arguments)
        refusal = question.reason or "approval was refused" if question.state == "denied" else ""
        self._question(question.prompt, call if call.name else None, refusal, question.answered_by)

    def unasked(self, ask: Ask, call: ToolCall | None, reason: str) -> None:
        """Write what nobody could be asked about, and why."""
        super().unasked(ask, call, reason)
        self._question(ask.prompt, call, reason)

    def _question(self, prompt: str, call: ToolCall | None, refusal: str, by: str = "") -> None:
        facts: dict[str, Any] = {"prompt": prompt, "approved": not refusal}
        if call is not None:
            facts |= {"id": call.id, "name": call.name, "arguments": call.arguments}
        if refusal:
            facts["reason"] = refusal
        if by:
            facts["by"] = by
        self._write("question", **facts)

    def result(self, message: ToolMessage) -> None:
        """Write what the model reads of a call."""
        self._write(
            "result",
            id=message.tool_call_id,
            name=message.tool_name,
            is_error=is_error(message),
            text=message.text,
        )

    def end(self, result: RunResult, session: str | None) -> None:
        """Write how the run ended."""
        self._write(
            "end",
            status=result.status,
            reason=result.reason,
            text=result.text,
            turns=result.turns,
            usage=result.usage,
            cost=self._cost_facts(result.usage),
            session=session,
            **({"pending": result.pending} if result.pending else {}),
        )

    def _cost_facts(self, usage: Mapping[str, int]) -> dict[str, object] | None:
        """Return what *usage* costs; None without a price, and if one of its kinds has none."""
        if self.price is None or not usage:
            return None
        amount, unknown = self.price.cost(usage)
        return None if unknown else {"amount": amount, "currency": self.price.currency}

    def stopped(self, session: str | None) -> None:
        """Write that the run was interrupted."""
        self._write_end("cancelled", "interrupted", session)

    def failed(self, reason: str) -> None:
        """Write that the run ended with an error, which people read on standard error."""
        super().failed(reason)
        self._write_end("error", reason, None)

    def _write_end(self, status: str, reason: str, session: str | None) -> None:
        """Write the end of a run that has no result."""
        nothing: dict[str, object] = {"text": "", "turns": None, "usage": {}, "cost": None}
        self._write("end", status=status, reason=reason, **nothing, session=session)

    def _write(self, kind: str, **facts: object) -> None:
        print_json(self._output, {"kind": kind, **facts})


def is_error(message: ToolMessage) -> bool:
    """Tell whether the call of *message* failed or was refused."""
    return message.tool_response is not None and message.tool_response.is_error
