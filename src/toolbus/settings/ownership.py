"""Whether others may change a file: then whoever trusts it trusts them."""

from __future__ import annotations

import grp
import os
import pwd
from contextlib import suppress
from stat import S_ISDIR, S_ISREG, S_ISVTX, S_IWGRP, S_IWOTH
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


_OTHERS = 0o077


def unfit_secret(path: Path, status: os.stat_result) -> str | None:
    """Return why the file *path* of this *status* can hold no secret of ours; or None."""
    if not S_ISREG(status.st_mode):
        return "it is no regular file"
    if status.st_uid != os.geteuid():
        return "it is another user's"
    if status.st_mode & _OTHERS:
        return f"others may use it (mode {status.st_mode & 0o7777:o}); see: chmod 600 {path}"
    return None


def foreign_hand(file: Path) -> str | None:
    """Return why others than ourselves may change *file*, a real path; or None.

    It, and each folder above it, must belong to us or to root, and be written by nobody else. In
    a sticky folder nobody replaces what belongs to another, so that may be shared. What an access
    control list allows beyond the mode is not seen.
    """
    user = os.geteuid()
    for path in (file, *file.parents):
        status = path.stat()
        what = "it" if path == file else f"its folder {str(path)!r}"
        if status.st_uid not in {0, user}:
            return f"{what} belongs to {_name(status.st_uid)}"
        shared = bool(status.st_mode & S_IWOTH) or (
            bool(status.st_mode & S_IWGRP) and not _is_private_group(status.st_gid, user)
        )
        if shared and not (S_ISDIR(status.st_mode) and status.st_mode & S_ISVTX):
            return f"others may write {what} (mode {status.st_mode & 0o7777:o})"
    return None


def _name(user: int) -> str:
    with suppress(KeyError):
        return f"user {pwd.getpwuid(user).pw_name!r}"
    return f"user {user}"


def _is_private_group(group: int, user: int) -> bool:
    """Tell whether *group* is the one that a system gives each user alone, under his name.

    There new files may be written by the group, and that is nobody else.
    """
    if group == 0:
        return user == 0
    try:
        entry, account = grp.getgrgid(group), pwd.getpwuid(user)
    except KeyError:
        return False
    return (
        account.pw_gid == group
        and entry.gr_name == account.pw_name
        and set(entry.gr_mem) <= {account.pw_name}
    )
