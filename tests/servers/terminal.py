"""A person at a terminal: a process on a pseudo-terminal, what it shows, and what is typed."""

import codecs
import os
import pty
import select
import subprocess
import sys
import termios

from toolbus.presence.agents import VARIABLES

# Who runs the tests may be an agent: above them nobody is looked for.
PROGRAM = """
import fcntl, itertools, runpy, sys, termios
from toolbus.presence import person
all_ancestors, tests, descriptor = person.ancestors, int(sys.argv.pop(1)), int(sys.argv.pop(1))
person.ancestors = lambda: itertools.takewhile(lambda each: each.pid != tests, all_ancestors())
fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


def program_words(arguments, python=(sys.executable,), descriptor=0, module="toolbus"):
    """Return the command of *module* with *arguments* below the terminal of *descriptor*."""
    own = str(os.getpid()), str(descriptor), module
    return [*python, "-c", PROGRAM, *own, *map(str, arguments)]


def without_agents(env):
    """Return *env* without what says that an agent runs the tests."""
    return {name: value for name, value in env.items() if name not in VARIABLES}


def run_as_person(arguments, *, env, python=(sys.executable,), check=False, **options):
    """Run `toolbus` with *arguments*, as `subprocess.run` does, below a terminal of its own."""
    ours, theirs = pty.openpty()
    try:
        return subprocess.run(
            program_words(arguments, python, theirs),
            env=without_agents(env),
            pass_fds=[theirs],
            start_new_session=True,
            check=check,
            **options,
        )
    finally:
        os.close(ours)
        os.close(theirs)


class Terminal:
    """A *module* with *arguments* on a terminal of its own, which sends it Ctrl-C."""

    def __init__(self, arguments, *, cwd, env, columns=80, rows=24, module="toolbus"):
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (rows, columns))
        self.shown = ""
        # A piece may end within a letter, or between the two of a line's end.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.process = subprocess.Popen(
            program_words(arguments, module=module),
            cwd=cwd,
            env=without_agents(env),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def expect(self, text):
        """Read until *text* is shown after what was expected before; return what was before it."""
        while text not in self.shown:
            if not (piece := self._read()):
                raise AssertionError(f"{text!r} is not shown, but {self.shown!r}")
            self._show(piece)
        before, _, self.shown = self.shown.partition(text)
        return before

    def type(self, text):
        """Type *text*; "\\x03" is Ctrl-C, "\\x04" Ctrl-D."""
        os.write(self._ours, text.encode())

    def answer(self, answers):
        """Type the answer to each text of *answers* when that is shown; return as `end` does."""
        before = ""
        while piece := self._read():
            self._show(piece)
            for text, answer in answers.items():
                if text in self.shown:
                    before += self.expect(text)
                    self.type(f"{answer}\n")
        return self.process.wait(timeout=30), before + self.shown

    def end(self):
        """Return the exit code, and what is shown until then."""
        while piece := self._read():
            self._show(piece)
        return self.process.wait(timeout=60), self.shown

    def _show(self, piece):
        self.shown = (self.shown + self._decoder.decode(piece)).replace("\r\n", "\n")

    def _read(self):
        """Return the next bytes that are shown; none at the end, which Linux tells by an error."""
        if not select.select([self._ours], [], [], 30)[0]:
            raise AssertionError(f"nothing more is shown after {self.shown!r}")
        try:
            return os.read(self._ours, 65_536)
        except OSError:
            return b""
