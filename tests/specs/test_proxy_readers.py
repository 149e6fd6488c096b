"""The scenarios of `specs/proxy_readers.md`."""

import asyncio
import json
import logging
import os

import pytest

from hunts import answers, bare, built_go, hunt, posts, requests, streams
from other_readers import READERS, commands, read

pytestmark = pytest.mark.full  # Thousands of frames, and the readers of Node.

LONG = os.environ.get("TOOLBUS_TESTS") == "long"
SEEDS = range(100_000 if LONG else 3_000)


@pytest.fixture(scope="module")
def go(tmp_path_factory):
    """Return Go's reader for a long run; else the model does."""
    return built_go(tmp_path_factory.mktemp("go")) if LONG else None


@pytest.fixture(scope="module")
def requested(go):
    """Return what the hunt among requests has found."""
    with Quiet():
        return asyncio.run(hunt(requests, SEEDS, go))


class Quiet:
    """Keeps the log of a hunt, which says a hundred thousand times what is wrong, to itself."""

    def __enter__(self):
        logging.disable()

    def __exit__(self, *_):
        logging.disable(logging.NOTSET)


def problems(found, word=""):
    """Return the first problems with their seeds, of those that say *word*."""
    wrong = [(one.seed, said) for one in found for said in one.problems if word in said]
    return wrong[:20]


def test_no_reader_sees_an_unchecked_call(requested):
    found = requested

    assert problems(found, " runs ") == []
    assert sum(one.judged > 0 for one in found) > len(SEEDS) // 4
    assert sum(one.read > 0 for one in found) > len(SEEDS) // 6


def test_every_hostile_request_gets_one_response(requested):
    found = requested

    assert [*problems(found, " answers"), *problems(found, " asked")] == []


def test_a_relay_forwards_only_checked_calls(go):
    seeds = SEEDS[::3]

    with Quiet():
        found = asyncio.run(hunt(posts, seeds, go))

    assert problems(found) == []
    assert sum(one.read > 0 for one in found) > len(seeds) // 6


def test_no_reader_sees_unchecked_text(go):
    with Quiet():
        found = asyncio.run(hunt(answers, SEEDS, go))

    assert problems(found) == []
    assert sum(one.judged > 0 and one.read > 0 for one in found) > len(SEEDS) // 2


def test_event_streams_are_read_as_checked(go):
    with Quiet():
        found = asyncio.run(hunt(streams, SEEDS, go))

    assert problems(found) == []
    assert sum(one.judged > 0 and one.read > 0 for one in found) > len(SEEDS) // 2


def test_without_handlers_hostile_bytes_pass():
    with Quiet():
        found = asyncio.run(hunt(bare, SEEDS))

    assert problems(found) == []
    assert sum(one.read > 0 for one in found) > len(SEEDS) // 3


def test_the_model_reads_as_go_does():
    lines = (READERS / "go/results.jsonl").read_text("utf-8").splitlines()
    table = [json.loads(line, parse_int=float) for line in lines]

    for mode in ("server", "client", "stream", "body"):
        rows = [row for row in table if row["mode"] == mode]
        said = read(commands()["Go"], mode, [(row["data"].encode("latin-1"),) for row in rows])

        differing = [
            (row["data"], row["read"], one)
            for row, one in zip(rows, said, strict=True)
            if row["read"] != one
        ]
        assert rows
        assert differing == []
