import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.errors import LoadError
from toolbus.policy import policy_versions
from toolbus.policy.policy_versions import PolicyVersions
from toolbus.toml.config_source import ConfigSource, config_source


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "policy.toml"
    write(file, "one")
    return file


def write(file, text):
    """Write *text* in a file that cannot be taken for the one before."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def read(file, data):
    if data == b"broken":
        raise LoadError(f"{file}: broken")
    return data.decode()


def versions(file, **checks):
    """Return versions that code made, or a configuration with *checks*."""
    origin = None
    if checks:
        first = checks.get("first", lambda file, data: None)
        origin = ConfigSource((Path("/config.toml"),), first, checks["changed"])
    token = config_source.set(origin)
    try:
        return PolicyVersions(file, read, lambda reason: f"deny: {reason}")
    finally:
        config_source.reset(token)


def trusting(file, data):
    return None


def distrusting(file, data):
    return "not trusted"


def test_a_file_is_in_force_as_it_is(file):
    policy = versions(file)

    assert policy.for_session("s") == (("one",), "")
    assert policy.files == (file,)


@pytest.mark.parametrize("damage", ["gone", "broken", "folder", "pipe", "large"])
def test_what_cannot_be_used_at_first_denies_everything(file, damage, monkeypatch, caplog):
    spoil(file, damage, monkeypatch)

    with pytest.raises(LoadError):
        versions(file)
    policy = versions(file, changed=trusting)

    (rules,) = policy.for_session("s").versions
    assert rules.startswith("deny: the policy cannot be used")
    assert "every call is denied" in caplog.text


@pytest.mark.parametrize("damage", ["gone", "broken", "folder", "pipe", "large"])
def test_what_cannot_be_used_later_leaves_the_old_in_force(file, damage, monkeypatch, caplog):
    policy = versions(file, changed=trusting)
    policy.for_session("old")
    spoil(file, damage, monkeypatch)

    for session in ("old", "new", "old"):
        rules, notice = policy.for_session(session)
        assert rules == ("one",)
        assert "NOT active" in notice

    assert len(caplog.records) == 1

    if file.is_dir():
        file.rmdir()
    monkeypatch.undo()
    write(file, "one")
    assert policy.for_session("old") == (("one",), "")


def spoil(file, damage, monkeypatch):
    match damage:
        case "gone":
            file.unlink()
        case "broken":
            write(file, "broken")
        case "folder":
            file.unlink()
            file.mkdir()
        case "pipe":
            file.unlink()
            os.mkfifo(file)
        case "large":
            monkeypatch.setattr(policy_versions, "LONGEST_POLICY", 3)
            write(file, "long")


def test_new_sessions_have_what_is_trusted_and_old_ones_both(file, caplog):
    policy = versions(file, changed=trusting)
    policy.for_session("old")
    write(file, "two")

    assert policy.for_session("new").versions == ("two",)
    assert policy.for_session("old").versions == ("one", "two")
    assert "only its stricter rules apply" in caplog.text

    write(file, "three")
    assert policy.for_session("old").versions == ("one", "two", "three")
    assert policy.for_session("new").versions == ("two", "three")
    assert policy.latest == "three"
    assert policy.files == (file, Path("/config.toml"))


def test_what_is_not_trusted_is_not_in_force_until_it_is(file):
    trusted = []

    def check(path, data):
        return None if data in trusted else "not trusted"

    policy = versions(file, changed=check)
    policy.for_session("old")
    write(file, "two")

    assert policy.for_session("old").versions == ("one",)
    assert "not trusted" in policy.for_session("new").notice

    trusted.append(b"two")
    assert policy.for_session("newest") == (("two",), "")
    assert policy.for_session("old").versions == ("one", "two")


def test_what_was_not_trusted_at_first_denies_everything(file):
    policy = versions(file, first=distrusting, changed=trusting)

    assert "not trusted" in policy.for_session("s").versions[0]


def test_what_code_names_only_tightens(file):
    policy = versions(file)
    policy.for_session("old")
    write(file, "two")

    assert policy.for_session("new").versions == ("one", "two")
    assert policy.for_session("old").versions == ("one", "two")


def test_what_others_may_write_is_not_taken_up(file, caplog):
    policy = versions(file)
    write(file, "two")
    file.chmod(0o666)

    assert policy.for_session("s").versions == ("one",)
    assert "others may write" in caplog.text


def test_a_file_that_is_written_again_as_it_was_is_the_same(file):
    policy = versions(file)
    write(file, "one")

    assert policy.for_session("s") == (("one",), "")


def test_the_number_of_versions_is_bounded(file, monkeypatch):
    monkeypatch.setattr(policy_versions, "MOST_VERSIONS", 2)
    policy = versions(file, changed=trusting)
    for text in ("two", "three"):
        write(file, text)
        policy.for_session(text)

    assert policy.for_session("s").versions == ("two",)
    assert "restart the program" in policy.for_session("s").notice


def test_a_session_that_was_forgotten_gets_everything(file, monkeypatch):
    monkeypatch.setattr(policy_versions, "MOST_SESSIONS", 2)
    policy = versions(file, changed=trusting)
    policy.for_session("old")
    write(file, "two")
    policy.for_session("b")
    policy.for_session("c")

    assert policy.for_session("old").versions == ("one", "two")


@given(st.lists(st.sampled_from(["write", "spoil", "a", "b", "c"]), max_size=20))
def test_no_session_ever_loses_rules(tmp_path_factory, steps):
    logging.disable(logging.CRITICAL)
    file = tmp_path_factory.mktemp("policy") / "policy.toml"
    write(file, "0")
    policy = versions(file, changed=trusting)
    seen = {}

    for number, step in enumerate(steps, 1):
        if step in {"write", "spoil"}:
            write(file, str(number) if step == "write" else "broken")
            continue
        now = policy.for_session(step).versions
        assert now[: len(seen.get(step, ()))] == seen.get(step, ())
        seen[step] = now
    logging.disable(logging.NOTSET)
