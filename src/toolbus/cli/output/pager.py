"""Long output on a terminal, one screen at a time."""

from __future__ import annotations

import os
import shlex
import subprocess
from contextlib import contextmanager, suppress
from shutil import which
from typing import TYPE_CHECKING, TextIO, cast

from toolbus.cli.output.stream import Output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# As in git: quit if one screen is enough, keep colours, leave the text on the screen.
_LESS = "FRX"


@contextmanager
def paged(
    output: Output, *, wanted: bool = True, environ: Mapping[str, str] = os.environ
) -> Iterator[Output]:
    """Yield an output whose text goes to *output* through `$PAGER`, by default less.

    Without a terminal, without a pager, or with a `PAGER` that is empty or cat, it is *output*
    itself. The end of the block waits for the person to quit the pager.
    """
    words = shlex.split(environ.get("PAGER", "less"))
    if not (wanted and output.is_terminal and words and words != ["cat"] and which(words[0])):
        yield output
        return
    with subprocess.Popen(  # noqa: S603 - the person's own choice
        words,
        stdin=subprocess.PIPE,
        env={"LESS": _LESS, **environ},
        encoding="utf-8",
        errors="replace",
    ) as pager:
        text = cast("TextIO", pager.stdin)
        through = Output(text, is_terminal=True)
        try:
            yield through
        finally:
            # The person may quit the pager before the end.
            with suppress(OSError):
                text.close()
            _wait(pager)
            output.lost = output.lost or through.lost


def _wait(pager: subprocess.Popen[str]) -> None:
    # Ctrl-C reaches the pager, too: it may end a search, and the person continues reading.
    while True:
        with suppress(KeyboardInterrupt):
            pager.wait()
            return
