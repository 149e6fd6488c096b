"""The calls of Python functions of ours in a piece of work: how many, of which rooms and files."""

import sys
from contextlib import contextmanager
from pathlib import Path

import toolbus

ROOT = Path(toolbus.__file__).parent
INLINED = {"<dictcomp>", "<listcomp>", "<setcomp>"}
"""The names of comprehensions, which are calls of their own before CPython 3.12 alone."""


class Walk:
    """The calls within one `walking`, in their order."""

    def __init__(self):
        self._frames = []

    def record(self, frame, kind, _):
        """Note the call of *frame*, as the profiler of `sys.setprofile`."""
        if kind == "call" and _file(frame) and frame.f_code.co_name not in INLINED:
            self._frames.append((frame, _room(_caller(frame))))

    @property
    def _calls(self):
        # A coroutine or generator that goes on is "called" again; its frame is the same.
        return {id(frame): (frame, room) for frame, room in reversed(self._frames)}.values()

    @property
    def calls(self):
        """The number of calls."""
        return len(self._calls)

    @property
    def hops(self):
        """The number of calls whose caller is in another room, or outside of the house."""
        return sum(_room(_file(frame)) != room for frame, room in self._calls)

    @property
    def files(self):
        """The entered files, as "tools/calls/call.py", sorted."""
        return sorted({_file(frame) for frame, _ in self._frames})

    @property
    def functions(self):
        """The qualified names of the called functions, as "Transcript.append", sorted."""
        return sorted({frame.f_code.co_qualname for frame, _ in self._frames})


@contextmanager
def walking():
    """Count the calls in the thread of the block, and return the `Walk` at once."""
    walk = Walk()
    sys.setprofile(walk.record)
    try:
        yield walk
    finally:
        sys.setprofile(None)


def _file(frame):
    """Return the file of *frame* below `src/toolbus`, or "" for code of others."""
    path = Path(frame.f_code.co_filename)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""


def _caller(frame):
    """Return the file of the nearest caller of *frame* that is ours, or ""."""
    while (frame := frame.f_back) is not None:
        if name := _file(frame):
            return name
    return ""


def _room(name):
    return name.partition("/")[0]
