"""What a handler sees of an answer that is still being said: `EventContext.window`."""

from __future__ import annotations

from typing import Literal


class AnswerWindow:
    """What a model has said so far of an answer, as the handlers before released it.

    A handler with `incremental=True` is called with one each time that *text* has grown, and once
    more without, when the answer is whole. *kind* is "text" or "reasoning", *released* what the
    handler released before, as its own output: it is shown, or will be.
    """

    __slots__ = ("kind", "output", "released", "text")

    def __init__(
        self, text: str, *, kind: Literal["text", "reasoning"] = "text", released: str = ""
    ) -> None:
        self.text, self.kind, self.released = text, kind, released
        self.output = released

    def release(self, output: str) -> None:
        """Say that *output* is the beginning of what becomes of the text, whatever comes yet.

        It begins with what was *released*; of a guard it is a beginning of *text*. What is not
        released waits; without a word nothing more is.
        """
        self.output = output
