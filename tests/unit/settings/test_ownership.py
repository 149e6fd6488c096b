"""Owners and modes that a test cannot bring about, told to whoever asks for a file's status."""

import grp
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolbus.settings.ownership import foreign_hand

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


def test_what_is_ours_alone_has_no_foreign_hand(system):
    assert foreign_hand(FILE) is None


def test_what_is_root_s_has_none(system):
    system.status[FILE] = (0, 0, 0o100644)

    assert foreign_hand(FILE) is None


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
def test_each_foreign_hand_is_named(system, path, status, reason):
    system.status[Path(path)] = status

    assert foreign_hand(FILE).startswith(reason)


def test_a_sticky_folder_keeps_what_is_ours(system):
    system.status[Path("/home")] = (0, 0, STICKY)

    assert foreign_hand(FILE) is None


def test_a_group_of_ours_alone_may_write(system):
    system.status[FILE] = (ME, ME, 0o100664)

    alone = foreign_hand(FILE)
    system.group.gr_mem = ["me"]
    listed = foreign_hand(FILE)
    system.group.gr_mem = ["me", "you"]

    assert (alone, listed) == (None, None)
    assert foreign_hand(FILE) == "others may write it (mode 664)"


@pytest.mark.parametrize(("name", "primary"), [("staff", ME), ("me", OTHER)])
def test_a_group_of_many_may_not_write(system, name, primary):
    system.status[FILE] = (ME, ME, 0o100664)
    system.group.gr_name, system.account.pw_gid = name, primary

    assert foreign_hand(FILE) == "others may write it (mode 664)"
