"""Models of the OpenAI Agents SDK whose requests and answers pass the components."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from inspect import signature
from typing import TYPE_CHECKING, Any

from agents import Model, ModelProvider, ModelTracing

from toolbus.bridges.openai_agents.judged_calls import CURRENT
from toolbus.bridges.openai_agents.judged_runs import answer_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agents import ModelResponse

    from toolbus.bridges.openai_agents.judged_runs import JudgedRun

_SIGNATURE = signature(Model.get_response)  # That of `stream_response` is the same.
_ENDS = ("response.completed", "response.incomplete", "response.failed")


class JudgedModel(Model):
    """A model whose requests and answers pass the components of the current run."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        # The runner looks for optional attributes, such as support of a prompt cache.
        if name.startswith("__") or name == "_model":
            raise AttributeError(name)  # Asked by `copy`, before there is a model.
        return getattr(self._model, name)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    def get_retry_advice(self, request: Any) -> Any:
        """Return the model's advice."""
        return self._model.get_retry_advice(request)

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._model._cleanup_on_run_end(owner)  # noqa: SLF001 - it is ours to pass on

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        """Return the model's answer, as handlers left it."""
        run, request = CURRENT.get(), _SIGNATURE.bind(self, *args, **options)
        await _pass_request(run, request.arguments)
        response = await self._model.get_response(*request.args[1:], **request.kwargs)
        if run is not None:
            await run.answer(response.output, request.arguments)
        return response

    async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Yield the events of the model's answer, with its text as handlers left it.

        If a handler takes answers, all is held back until the end.
        """
        run, request = CURRENT.get(), _SIGNATURE.bind(self, *args, **options)
        await _pass_request(run, request.arguments)
        events = self._model.stream_response(*request.args[1:], **request.kwargs)
        try:
            judged = events if run is None else _judged(run, events, request.arguments)
            async for event in judged:
                yield event
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()


async def _judged(
    run: JudgedRun, events: AsyncIterator[Any], request: dict[str, Any]
) -> AsyncIterator[Any]:
    """Yield *events*, those of the model's answer to *request*, as handlers left it."""
    is_holding = run.bridge.host.judges("assistant")
    held: list[Any] = []
    items: list[Any] = []
    async for event in events:
        if event.type == "response.output_item.done":
            items.append(event.item)
        if event.type in _ENDS:
            # Some models give the items only one by one.
            event.response.output = output = event.response.output or items
            text = answer_in(output)
            await run.answer(output, request)
            changed = answer_in(output)
            if changed != text:
                deltas = [each for each in held if each.type == "response.output_text.delta"]
                held = [each.model_copy(update={"delta": changed}) for each in deltas[:1]]
            for each in held:
                yield each
        elif is_holding:
            held.append(event)
            continue
        yield event


class JudgedProvider(ModelProvider):
    """A provider of bridged models."""

    def __init__(self, provider: ModelProvider) -> None:
        self._provider = provider

    def get_model(self, model_name: str | None) -> Model:
        """Return the model, bridged."""
        return JudgedModel(self._provider.get_model(model_name))

    async def aclose(self) -> None:
        """Close the provider."""
        await self._provider.aclose()


async def _pass_request(run: JudgedRun | None, request: dict[str, Any]) -> None:
    """Put a prompt in *request*, the arguments of a model, on the bus, and change it there."""
    if run is None:
        return
    request["input"] = await run.request(request["input"])
    if request["tracing"] is ModelTracing.ENABLED:
        # The model writes its span before handlers have seen the answer.
        request["tracing"] = ModelTracing.ENABLED_WITHOUT_DATA
