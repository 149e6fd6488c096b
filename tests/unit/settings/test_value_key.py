"""The key that knows values again that a store must not hold."""

import logging

import pytest

from toolbus.settings.user_folders import value_key_file
from toolbus.settings.user_key import value_key


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_what_lives_in_memory_needs_no_file(state):
    keys = {value_key(durable=False) for _ in range(2)}

    assert len(keys) == 1
    assert not state.exists()


def test_all_stores_of_a_user_have_one_key(state):
    keys = {value_key(durable=True) for _ in range(2)}

    assert keys == {value_key_file().read_bytes()}
    assert value_key(durable=False) not in keys


def test_what_is_wrong_is_logged_once_and_tried_again(state, caplog):
    file = value_key_file()
    file.parent.mkdir(parents=True)
    file.write_bytes(b"short")
    file.chmod(0o600)
    with caplog.at_level(logging.WARNING):
        without = [value_key(durable=True), value_key(durable=True)]
        file.unlink()
        key = value_key(durable=True)

    assert without == [None, None]
    assert key == file.read_bytes()
    (warning,) = caplog.messages
    assert "cannot be recognized by another process" in warning
    assert str(file) in warning


def test_without_a_home_folder_there_is_none(monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", nowhere)
    assert value_key(durable=True) is None
