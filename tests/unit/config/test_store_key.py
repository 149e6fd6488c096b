import pytest

from toolbus.config.approvals import read_store_key
from toolbus.config.configuration import read
from toolbus.config.documents import read_document
from toolbus.errors import ConfigurationError
from toolbus.store.memory import MemoryStore


def document(tmp_path, text):
    file = tmp_path / "toolbus.toml"
    file.write_text(text)
    return read_document(file)


def test_a_project_names_no_key(tmp_path, monkeypatch):
    monkeypatch.setenv("STORE_KEY", "k" * 32)
    named = document(tmp_path, '[store]\nkey = "env:STORE_KEY"')

    assert read_store_key(named) == b"k" * 32
    with pytest.raises(ConfigurationError, match=r"toolbus\.toml:2: key 'key' may not be set"):
        read_store_key(named, is_project=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("store = 5", "'store' is not a table"),
        ("[store]\nkeys = 5", "unknown key 'keys'; did you mean 'key'"),
        ("[store]\nkey = 5", "expected `str`, got `int`"),
        ('[store]\nkey = ""', "may be read by tools"),
    ],
)
def test_the_form_is_checked(tmp_path, text, reason):
    with pytest.raises(ConfigurationError, match=reason):
        read_store_key(document(tmp_path, text))


def test_random_bytes_are_used_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "toolbus/keys/own.key"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\n" * 32)
    file.chmod(0o600)

    assert read_store_key(document(tmp_path, '[store]\nkey = "keys/own.key"')) == b"\n" * 32


def test_approvals_know_a_call_by_the_key(tmp_path, monkeypatch):
    monkeypatch.setenv("STORE_KEY", "k" * 32)
    file = tmp_path / "toolbus.toml"
    file.write_text('[store]\nkey = "env:STORE_KEY"\n[[component]]\nuse = "redact-secrets"\n')

    configuration = read(file)

    assert configuration.approvals.key == b"k" * 32
    assert [component.value_key for component in configuration.components] == [b"k" * 32]
    assert configuration.approvals.make(MemoryStore(), "agent", 0.0)._given_key == b"k" * 32
