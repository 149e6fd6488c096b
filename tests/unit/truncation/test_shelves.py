"""What is kept, and what is not."""

import os

import pytest

from toolbus.truncation.shelves import FolderShelf, MemoryShelf, Overfull, reference_of


@pytest.fixture(params=["memory", "folder"])
def shelf(request, tmp_path):
    if request.param == "memory":
        return MemoryShelf(3, 10_000)
    return FolderShelf(tmp_path / "kept", 3, 10_000)


def test_the_same_text_is_kept_once(shelf):
    first, again = shelf.keep("s", "text"), shelf.keep("s", "text")

    assert first == (reference_of("s", "text"), True)
    assert again == (reference_of("s", "text"), False)
    assert shelf.get("s", first[0]) == "text"


def test_what_is_forgotten_is_gone(shelf):
    name, _ = shelf.keep("s", "text")

    shelf.forget("s", name)
    shelf.forget("s", name)

    assert shelf.get("s", name) is None
    assert shelf.keep("s", "text") == (name, True)


def test_bytes_are_bounded(shelf):
    names = [shelf.keep("s", f"{n}" * 4_500)[0] for n in range(3)]

    assert [shelf.get("s", name) is not None for name in names] == [False, True, True]
    with pytest.raises(Overfull):
        shelf.keep("s", "x" * 10_001)


def test_an_odd_session_is_no_path(shelf):
    name, _ = shelf.keep("../\udc80/..", "text")

    assert shelf.get("../\udc80/..", name) == "text"
    assert shelf.get("..", name) is None


def test_odd_references_are_unknown(tmp_path):
    shelf = FolderShelf(tmp_path, 3, 10_000)
    shelf.keep("s", "text")

    for name in ("", "output-", "../output-000000000000", "output-00000000000g", "\x00"):
        assert shelf.get("s", name) is None


def test_nothing_half_written_stays(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("full")

    shelf = FolderShelf(tmp_path, 3, 10_000)
    monkeypatch.setattr(os, "fdopen", fail)

    with pytest.raises(OSError, match="full"):
        shelf.keep("s", "text")
    assert not [one for one in tmp_path.rglob("*") if one.is_file()]
