"""The key in a file of its user: made once, and refused if anybody else may have it."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolbus.settings import user_key as module
from toolbus.settings.user_key import SIZE, UserKeyError, check_user_key, user_key


@pytest.fixture
def file(tmp_path):
    """Return where a key is to be, in a folder that is not there yet."""
    return tmp_path / "own" / "some.key"


def test_it_is_made_once_for_its_owner_alone(file):
    keys = {user_key(file) for _ in range(3)}

    (key,) = keys
    assert len(key) == SIZE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [*file.parent.iterdir()] == [file]


def test_all_that_make_it_at_once_have_the_same(file):
    with ThreadPoolExecutor(16) as threads:
        keys = {*threads.map(lambda _: user_key(file), range(64))}

    assert len(keys) == 1
    assert [*file.parent.iterdir()] == [file]


def test_who_comes_second_has_the_key_of_the_first(file, monkeypatch):
    link = os.link

    def link_later(*args, **options):
        monkeypatch.setattr(os, "link", link)
        (file.parent / "some.key").write_bytes(b"k" * SIZE)
        file.chmod(0o600)
        link(*args, **options)

    monkeypatch.setattr(module.os, "link", link_later)

    assert user_key(file) == b"k" * SIZE
    assert [*file.parent.iterdir()] == [file]


def put(file, data=b"k" * SIZE, mode=0o600):
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_bytes(data)
    file.chmod(mode)


def linked(file):
    put(file.with_name("other"))
    file.symlink_to("other")


def dangling(file):
    file.parent.mkdir(mode=0o700)
    file.symlink_to("nowhere")


def pipe(file):
    file.parent.mkdir(mode=0o700)
    os.mkfifo(file, 0o600)


def shared_folder(file):
    put(file)
    file.parent.chmod(0o777)


def shared_and_empty_folder(file):
    file.parent.mkdir()
    file.parent.chmod(0o777)


WRONG = {
    "truncated": (lambda file: put(file, b"k" * 31), "expected 32 bytes; remove it"),
    "empty": (lambda file: put(file, b""), "expected 32 bytes"),
    "longer": (lambda file: put(file, b"k" * 4_096), "expected 32 bytes"),
    "read by all": (lambda file: put(file, mode=0o644), "others may use it (mode 644)"),
    "written by its group": (lambda file: put(file, mode=0o620), "others may use it"),
    "a link": (linked, "symbolic links"),
    "a link to nothing": (dangling, "symbolic links"),
    "a pipe": (pipe, "not a regular file"),
    "a folder": (lambda file: file.mkdir(parents=True), "not a regular file"),
    "in a shared folder": (shared_folder, "others may write its folder"),
    "to be made in a shared folder": (shared_and_empty_folder, "others may write"),
    "below a file": (lambda file: file.parent.write_text("x"), "Not a directory"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_key_of_ours_is_refused_and_left_alone(file, kind):
    make, reason = WRONG[kind]
    make(file)
    before = [(path, path.lstat().st_mtime_ns) for path in sorted(file.parent.rglob("*"))]

    with pytest.raises(UserKeyError) as raised:
        user_key(file)

    assert reason in str(raised.value)
    assert str(file) in str(raised.value)
    assert "kkkk" not in str(raised.value)
    assert [(path, path.lstat().st_mtime_ns) for path in sorted(file.parent.rglob("*"))] == before


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_checked_is_refused_as_well(file, kind):
    make, reason = WRONG[kind]
    make(file)

    with pytest.raises(UserKeyError) as raised:
        check_user_key(file)

    assert reason in str(raised.value)


def test_a_check_makes_nothing(file, monkeypatch):
    check_user_key(file)
    monkeypatch.setattr(os, "access", lambda *_: False)

    with pytest.raises(UserKeyError, match="nothing can be written in"):
        check_user_key(file)
    assert not file.parent.exists()


def test_that_of_another_user_is_refused(file, monkeypatch):
    put(file)
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)

    with pytest.raises(UserKeyError, match="belongs to another user"):
        user_key(file)


def test_where_none_can_be_made_nothing_is_left(file, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(module.os, "link", refuse)

    with pytest.raises(UserKeyError, match="Operation not permitted"):
        user_key(file)
    assert [*file.parent.iterdir()] == []
