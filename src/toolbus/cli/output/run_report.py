"""The report of a run: the model's text, its calls and counts, as text or as JSON lines."""

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

    from toolbus.agent.agent import Agent
    from toolbus.approvals.questions import Question
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.cli.output.deferred_output import DeferredOutput
    from toolbus.cli.output.stream import Output
    from toolbus.config.prices import Price
    from toolbus.events.catalogue import Ask, ModelDelta, RunResult
    from toolbus.messages.records import Message

NO_TERMINAL = "approval is needed, and there is no terminal to ask at"
"""The reason of a denial without a terminal for the question."""

_COUNTS = (
    ("input_tokens", "in"),
    ("cache_read_tokens", "from the cache"),
    ("output_tokens", "out"),
)

_DECIMALS = 6
"""The decimals of a cost below 1: a run may cost a hundredth of a cent."""


class RunReport(AgentComponent):
    """The report of text when it is released, and of messages when they are in the transcript.

    Guards have passed both by then. The model's text goes to *output*, everything else to *side*.
    """

    def __init__(self, output: Output, side: DeferredOutput) -> None:
        super().__init__()
        self._output, self._side, self._screen = output, side, open_screen(side)
        self._is_open, self._unasked = False, ""
        self.price: Price | None = None
        self.store: str | None = None
        self.session: str | None = None
        self.agent: Agent | None = None
        # The released text of the current answer, and the run and turn of the last appended one.
        self._released: list[str] = []
        self._appended: tuple[str, int] | None = None

    @on(MODEL_CALL_DELTA)
    def grow(self, ctx: EventContext[ModelDelta]) -> None:
        """Report a piece of this agent's answer, unless the whole answer was reported."""
        scope, delta = ctx.scope, ctx.value
        is_new = not scope.lineage and self._appended != (scope.run_id, scope.turn)
        if is_new and delta.kind == "text" and delta.text:
            self._released.append(delta.text)
            self.text(delta.text, scope.turn)
        elif delta.kind == "void" and self._released:
            self.void(scope.turn)

    @on(MESSAGE_APPEND_AFTER)
    def show(self, ctx: EventContext[Message]) -> None:
        """Report a message of this agent; sub-agents have none."""
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
        """Write the rest of an answer's *text*, all of it if its released text was another."""
        shown = "".join(self._released)
        if not text.startswith(shown):
            shown = ""
            self.end_line()
        if len(text) > len(shown):
            self.text(text[len(shown) :], turn)
        self.end_line()

    def start(self, **facts: object) -> None:
        """Report the facts of a session."""

    def text(self, text: str, _turn: int) -> None:
        """Write the model's text; other output is deferred until the end of the line."""
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
        """Report that the text of this turn is void: the answer broke off or was refused."""
        self.end_line()
        self._screen.whole("toolbus: the text above is void: its answer broke off or was refused")

    def end_line(self) -> None:
        """End the current line, since no more text of this answer comes."""
        self._released.clear()
        if self._is_open:
            self._output.write("\n")
            self._close_line()

    def _close_line(self) -> None:
        if self._is_open:
            self._is_open = False
            self._side.release()

    def call(self, call: ToolCall) -> None:
        """Write the line of a call, cut at the width of the terminal."""
        self._screen.line(Span("→ ", "asked"), *describe_call(call))

    def answered(self, _question: Question) -> None:
        """Write nothing: the person knows the answer, and the call's result shows it."""

    def unasked(self, _ask: Ask, _call: ToolCall | None, reason: str) -> None:
        """Keep the reason of a question that could not be asked, for the end of the run."""
        self._unasked = reason

    def result(self, message: ToolMessage) -> None:
        """Write the line of a result."""
        lines = message.text.splitlines()
        name = shorten_visible(message.tool_name)
        if is_error(message):
            self._screen.line(Span("✗ ", "bad"), f"{name}: {lines[0] if lines else 'failed'}")
        else:
            text = f"{len(lines):,} line{'s' * (len(lines) != 1)}"
            if lines and message.tool_name in {"write_file", "edit_file"}:
                text = lines[0]
            self._screen.line(Span("✓ ", "good"), f"{name}: {text}")

    def end(self, result: RunResult) -> None:
        """Write the end of the run, unless it is "ok", and its known counts."""
        if result.pending:
            self._pending(result.pending)
        elif result.status != "ok":
            reason = result.reason or "no reason was given"
            self._screen.whole(f"toolbus: the run ended as {result.status!r}: {reason}")
        if self._unasked:
            self._screen.whole(
                f"toolbus: {self._unasked}; --store keeps the question for `toolbus approvals`, "
                "--yes asks only where the configuration asks: `toolbus run --help`"
            )
        parts = self._usage(result.usage)
        parts += [f"session {self.session}"] if self.session else []
        if parts:
            self._screen.whole("; ".join(parts), style="dim")

    def _usage(self, usage: Mapping[str, int]) -> list[str]:
        """Return the counts of tokens and their cost, as far as they are known."""
        counts = [f"{usage[key]:,} {words}" for key, words in _COUNTS if usage.get(key)]
        known = [f"tokens: {', '.join(counts)}"] if counts else []
        if not (counts and self.price):
            return known
        amount, unknown = self.price.cost(usage)
        if unknown:
            return [*known, f"cost unknown: no price of {', '.join(unknown)}"]
        decimals = _DECIMALS if amount < 1 else 2
        return [*known, f"cost: {amount:,.{decimals}f} {self.price.currency}"]

    def _pending(self, question_ids: Sequence[str]) -> None:
        """Write the waiting questions, and the commands that answer them and resume the run."""
        for question_id in question_ids:
            self._screen.whole(f"toolbus: question {question_id} waits for a person")
        store = shlex.quote(self.store or "STORE")
        name = shlex.quote(self.session or "SESSION")
        self._screen.whole(f"  see them: toolbus approvals --store {store}")
        self._screen.whole(f"  go on:    toolbus run --store {store} --resume {name}")
        self._screen.whole("            and --model, --tools and the like as in this run")

    def stopped(self) -> None:
        """Write the session of an interrupted run, which can be resumed."""
        if self.session:
            self._screen.whole(f"session {self.session}", style="dim")

    def failed(self, reason: str) -> None:
        """Write the error of a run."""
        self._screen.whole(f"error: {reason}")


class JsonRunReport(RunReport):
    """The report as one JSON object a line on *output*; *side* gets only the error of a run."""

    def start(self, **facts: object) -> None:
        """Write the facts of the session."""
        self._write("start", session=self.session, **facts)

    def text(self, text: str, turn: int) -> None:
        """Write a piece of text of the answer number *turn* in the run."""
        self._write("text", turn=turn, text=text)

    def void(self, turn: int) -> None:
        """Write that the text of the answer number *turn* is void."""
        self.end_line()
        self._write("void", turn=turn)

    def call(self, call: ToolCall) -> None:
        """Write a call, with *raw* if its arguments are not a JSON object."""
        raw = {} if call.raw is None else {"raw": call.raw}
        self._write("call", id=call.id, name=call.name, arguments=call.arguments, **raw)

    def answered(self, question: Question) -> None:
        """Write an answered question: its call as it would run, the answer, and its author."""
        call = ToolCall(id=question.call_id, name=question.tool, arguments=question.arguments)
        refusal = question.reason or "approval was refused" if question.state == "denied" else ""
        self._question(question.prompt, call if call.name else None, refusal, question.answered_by)

    def unasked(self, ask: Ask, call: ToolCall | None, reason: str) -> None:
        """Write a question that could not be asked, and the reason."""
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
        """Write the result of a call as the model reads it."""
        self._write(
            "result",
            id=message.tool_call_id,
            name=message.tool_name,
            is_error=is_error(message),
            text=message.text,
        )

    def end(self, result: RunResult) -> None:
        """Write the end of the run."""
        facts = {"text": result.text, "turns": result.turns, "usage": result.usage}
        pending = {"pending": result.pending} if result.pending else {}
        cost = self._cost_facts(result.usage)
        self._write_end(result.status, result.reason, **facts, cost=cost, **pending)

    def _cost_facts(self, usage: Mapping[str, int]) -> dict[str, object] | None:
        """Return the cost of *usage*; None if a price is missing."""
        if self.price is None or not usage:
            return None
        amount, unknown = self.price.cost(usage)
        return None if unknown else {"amount": amount, "currency": self.price.currency}

    def stopped(self) -> None:
        """Write that the run was interrupted."""
        self._write_end("cancelled", "interrupted")

    def failed(self, reason: str) -> None:
        """Write the error of the run, also on standard error."""
        super().failed(reason)
        self._write_end("error", reason, session=None)

    def _write_end(self, status: str, reason: str | None, **facts: object) -> None:
        """Write the end of a run; a run without a result has no *facts*."""
        nothing: dict[str, object] = {"text": "", "turns": None, "usage": {}, "cost": None}
        ended = {**nothing, "session": self.session, **facts}
        self._write("end", status=status, reason=reason, **ended)

    def _write(self, kind: str, **facts: object) -> None:
        print_json(self._output, {"kind": kind, **facts})


def is_error(message: ToolMessage) -> bool:
    """Return whether the call of *message* failed or was refused."""
    return message.tool_response is not None and message.tool_response.is_error
