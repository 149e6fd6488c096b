"""Which key knows values again that a store must not hold."""

import logging

import pytest

from toolbus.settings.user_folders import value_key_file
from toolbus.store import MemoryStore, SqliteStore
from toolbus.store.value_keys import value_key


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


async def test_what_lives_in_memory_needs_no_file(state):
    keys = {value_key(MemoryStore()) for _ in range(2)}

    assert len(keys) == 1
    assert not state.exists()


async def test_all_stores_of_a_user_have_one_key(state, tmp_path):
    async with SqliteStore(tmp_path / "a.db") as first, SqliteStore(tmp_path / "b.db") as second:
        keys = {value_key(first), value_key(second)}

    assert keys == {value_key_file().read_bytes()}
    assert value_key(MemoryStore()) not in keys


async def test_what_is_wrong_is_logged_once_and_tried_again(state, tmp_path, caplog):
    file = value_key_file()
    file.parent.mkdir(parents=True)
    file.write_bytes(b"short")
    file.chmod(0o600)
    with caplog.at_level(logging.WARNING):
        async with SqliteStore(tmp_path / "a.db") as store:
            without = [value_key(store), value_key(store)]
            file.unlink()
            key = value_key(store)

    assert without == [None, None]
    assert key == file.read_bytes()
    (warning,) = caplog.messages
    assert "not known again in another process" in warning
    assert str(file) in warning


async def test_without_a_home_folder_there_is_none(tmp_path, monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", nowhere)
    async with SqliteStore(tmp_path / "a.db") as store:
        assert value_key(store) is None
