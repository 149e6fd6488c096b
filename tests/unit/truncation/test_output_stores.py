"""What is kept, and what is not."""

import os

import pytest

from toolbus.truncation.output_stores import FolderOutputs, MemoryOutputs, reference_of


@pytest.fixture(params=["memory", "folder"])
def store(request, tmp_path):
    if request.param == "memory":
        return MemoryOutputs(10_000)
    return FolderOutputs(tmp_path / "kept", 10_000)


def test_the_same_text_is_kept_once(store):
    first, again = store.keep("s", "text"), store.keep("s", "text")

    assert first == again == reference_of("s", "text")
    assert store.get("s", first) == "text"


def test_what_is_forgotten_is_gone(store):
    name = store.keep("s", "text")

    store.forget("s", name)
    store.forget("s", name)

    assert store.get("s", name) is None
    assert store.keep("s", "text") == name


def test_bytes_are_bounded(store):
    names = [store.keep("s", f"{n}" * 4_500) for n in range(3)]

    assert [store.get("s", name) is not None for name in names] == [False, True, True]
    assert store.keep("s", "x" * 10_001) is None


def test_an_odd_session_is_no_path(store):
    name = store.keep("../\udc80/..", "text")

    assert store.get("../\udc80/..", name) == "text"
    assert store.get("..", name) is None


def test_odd_references_are_unknown(tmp_path):
    store = FolderOutputs(tmp_path, 10_000)
    store.keep("s", "text")

    for name in ("", "output-", "../output-000000000000", "output-00000000000g", "\x00"):
        assert store.get("s", name) is None


def test_nothing_half_written_stays(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("full")

    store = FolderOutputs(tmp_path, 10_000)
    monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(OSError, match="full"):
        store.keep("s", "text")
    assert not [one for one in tmp_path.rglob("*") if one.is_file()]
