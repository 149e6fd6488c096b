"""Long output with pagers that are present, missing, slow or left."""

import io
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from toolbus.cli.output import pager
from toolbus.cli.output.pager import paged
from toolbus.cli.output.stream import Output


@contextmanager
def pipe():
    """Give an output, and what reads its other end."""
    ours, theirs = os.pipe()
    with os.fdopen(ours, "r", encoding="utf-8") as reader, os.fdopen(theirs, "w") as writer:
        yield Output(writer), reader


def on_terminal():
    return Output(io.StringIO(), is_terminal=True)


@pytest.mark.parametrize("environ", [{"PAGER": ""}, {"PAGER": "cat"}, {"PAGER": "/no/such thing"}])
def test_without_a_pager_text_is_written_directly(environ):
    output = on_terminal()

    with paged(output, environ=environ) as through:
        assert through is output


@pytest.mark.parametrize(("wanted", "is_terminal"), [(False, True), (True, False)])
def test_a_pager_is_for_people_who_want_one(wanted, is_terminal):
    output = Output(io.StringIO(), is_terminal=is_terminal)

    with paged(output, wanted=wanted, environ={"PAGER": "less"}) as through:
        assert through is output


def test_the_text_goes_through_the_pager(tmp_path):
    script = "import os, sys; open(sys.argv[1], 'w').write(os.environ['LESS'] + sys.stdin.read())"
    (tmp_path / "pager.py").write_text(script)
    words = f"{sys.executable} {tmp_path}/pager.py {tmp_path}/out"

    with paged(on_terminal(), environ={**os.environ, "PAGER": words}) as through:
        assert through.is_terminal
        through.write("ein Wort: ü\n")

    assert (tmp_path / "out").read_text("utf-8") == "FRXein Wort: ü\n"


def test_an_early_end_of_the_pager_ends_the_output():
    output = on_terminal()

    with paged(output, environ={**os.environ, "PAGER": "true"}) as through:
        while not through.lost:
            through.write("line\n" * 10_000)

    assert isinstance(output.lost, BrokenPipeError)


def test_ctrl_c_does_not_end_the_pager():
    class Reading(subprocess.Popen):
        interrupted = False

        def wait(self, timeout=None):
            if not Reading.interrupted:
                Reading.interrupted = True
                raise KeyboardInterrupt
            return super().wait(timeout)

    with Reading([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True) as child:
        child.stdin.write("\n")
        child.stdin.close()
        pager._wait(child)

        assert child.returncode == 0


def test_resting_ends_when_the_reader_leaves():
    with pipe() as (output, reader):
        output.rest(0.001)
        assert output.lost is None

        reader.close()
        output.rest(600)

        assert isinstance(output.lost, BrokenPipeError)
