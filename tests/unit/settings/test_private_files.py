"""Private files; owners and modes that a test cannot bring about are told by a fake `stat`."""

import grp
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolbus.settings.private_files import (
    UnfitFileError,
    lock_file,
    locked,
    read_regular,
    read_secret_file,
    signature,
    try_lock,
    writable_by_others,
    write_private,
)

ME, OTHER = 1_000, 1_001
FILE = Path("/home/me/project/toolbus.toml")
FOLDER, STICKY = 0o40755, 0o41777


@pytest.fixture
def system(monkeypatch):
    """Return the status of each path, owner, group and mode; and who is in our group."""
    status = {
        FILE: (ME, ME, 0o100644),
        Path("/home/me/project"): (ME, ME, FOLDER),
        Path("/home/me"): (ME, ME, FOLDER),
        Path("/home"): (0, 0, FOLDER),
        Path("/"): (0, 0, FOLDER),
    }
    group = SimpleNamespace(gr_name="me", gr_mem=[])
    account = SimpleNamespace(pw_name="me", pw_gid=ME)

    def stat(path):
        owner, owners, mode = status[path]
        return SimpleNamespace(st_uid=owner, st_gid=owners, st_mode=mode)

    def by_id(known):
        def find(number):
            if number != ME:
                raise KeyError(number)
            return known

        return find

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(os, "geteuid", lambda: ME)
    monkeypatch.setattr(grp, "getgrgid", by_id(group))
    monkeypatch.setattr(pwd, "getpwuid", by_id(account))
    return SimpleNamespace(status=status, group=group, account=account)


def test_what_is_ours_alone_is_writable_by_no_others(system):
    assert writable_by_others(FILE) is None


def test_what_is_root_s_has_none(system):
    system.status[FILE] = (0, 0, 0o100644)

    assert writable_by_others(FILE) is None


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        (FILE, (OTHER, ME, 0o100600), "it belongs to user 1001"),
        ("/home/me/project", (OTHER, ME, FOLDER), "its folder '/home/me/project' belongs to user"),
        ("/home", (OTHER, 0, STICKY), "its folder '/home' belongs to user 1001"),
        (FILE, (ME, ME, 0o100646), "others may write it (mode 646)"),
        (FILE, (ME, OTHER, 0o100664), "others may write it (mode 664)"),
        (FILE, (ME, 0, 0o100664), "others may write it (mode 664)"),
        (FILE, (ME, ME, 0o101646), "others may write it (mode 1646)"),
        ("/home/me", (ME, ME, 0o40757), "others may write its folder '/home/me' (mode 757)"),
        ("/home", (0, 0, 0o40775), "others may write its folder '/home' (mode 775)"),
    ],
)
def test_each_other_writer_is_named(system, path, status, reason):
    system.status[Path(path)] = status

    assert writable_by_others(FILE).startswith(reason)


def test_a_sticky_folder_keeps_what_is_ours(system):
    system.status[Path("/home")] = (0, 0, STICKY)

    assert writable_by_others(FILE) is None


def test_a_group_of_ours_alone_may_write(system):
    system.status[FILE] = (ME, ME, 0o100664)

    alone = writable_by_others(FILE)
    system.group.gr_mem = ["me"]
    listed = writable_by_others(FILE)
    system.group.gr_mem = ["me", "you"]

    assert (alone, listed) == (None, None)
    assert writable_by_others(FILE) == "others may write it (mode 664)"


@pytest.mark.parametrize(("name", "primary"), [("staff", ME), ("me", OTHER)])
def test_a_group_of_many_may_not_write(system, name, primary):
    system.status[FILE] = (ME, ME, 0o100664)
    system.group.gr_name, system.account.pw_gid = name, primary

    assert writable_by_others(FILE) == "others may write it (mode 664)"


def test_a_private_file_is_its_owners_in_folders_of_its_own(tmp_path):
    file = tmp_path / "a" / "b" / "secret"

    write_private(file, b"one")
    write_private(file, b"two")

    assert file.read_bytes() == b"two"
    modes = [path.stat().st_mode & 0o777 for path in (file, file.parent, file.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]
    assert list(file.parent.iterdir()) == [file]


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "aim").write_bytes(b"kept")
    (tmp_path / "link").symlink_to(tmp_path / "aim")

    write_private(tmp_path / "link", b"new")

    assert (tmp_path / "aim").read_bytes() == b"kept"
    assert not (tmp_path / "link").is_symlink()


def test_a_write_that_fails_leaves_what_was(tmp_path, monkeypatch):
    file = tmp_path / "secret"
    write_private(file, b"one")

    def fail(_):
        raise OSError(28, "no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_private(file, b"two")

    assert file.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [file]


def test_only_a_regular_file_of_bounded_length_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "long").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("long")

    for name, reason in [("pipe", "regular"), ("folder", "regular"), ("long", "longer than 4")]:
        with pytest.raises(UnfitFileError, match=reason):
            read_regular(tmp_path / name, 4)
    with pytest.raises(OSError, match="symbolic links"):
        read_regular(tmp_path / "link", 5)
    assert read_regular(tmp_path / "long", 5)[0] == b"12345"


def test_a_secret_that_others_may_read_is_refused(tmp_path):
    file = tmp_path / "secret"
    write_private(file, b"one", mode=0o640)

    with pytest.raises(UnfitFileError, match="chmod 600"):
        read_secret_file(file, 10)


def test_a_lock_is_held_by_one(tmp_path):
    file = tmp_path / "lock"

    with locked(file), lock_file(file) as other:
        assert not try_lock(other)
    with lock_file(file) as other:
        assert try_lock(other)


def test_a_written_file_has_another_signature(tmp_path):
    file = tmp_path / "file"
    assert signature(file) is None

    write_private(file, b"one")
    before = signature(file)
    write_private(file, b"two")

    assert before != signature(file)
    assert signature("\0") is None
