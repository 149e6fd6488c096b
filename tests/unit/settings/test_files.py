"""Atomic writes of files."""

from pathlib import Path
from stat import S_IMODE

import pytest

from toolbus.settings.files import replacing
from toolbus.settings.usage_error import UsageError


def names(folder: Path) -> list[str]:
    return sorted([one.name for one in folder.iterdir()])


def test_a_new_file_is_private(tmp_path):
    with replacing(tmp_path / "new", force=False) as stream:
        stream.write(b"text")
        assert not (tmp_path / "new").exists()

    assert (tmp_path / "new").read_bytes() == b"text"
    assert S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def write_half(path):
    with replacing(path, force=True) as stream:
        stream.write(b"half")
        raise ValueError("stop")


def test_a_failure_changes_nothing(tmp_path):
    (tmp_path / "old").write_text("old")

    with pytest.raises(ValueError, match="stop"):
        write_half(tmp_path / "old")

    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").read_text() == "old"


def test_a_replaced_file_keeps_its_permissions_and_links(tmp_path):
    (tmp_path / "old").write_text("old")
    (tmp_path / "old").chmod(0o640)
    (tmp_path / "link").symlink_to("old")

    with replacing(tmp_path / "link", force=True) as stream:
        stream.write(b"new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "old").read_text() == "new"
    assert S_IMODE((tmp_path / "old").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("path", "reason"),
    [("old", "--force"), ("no/where", "there is no folder"), ("folder", "is not a regular file")],
)
def test_an_unwritable_path_is_refused(path, reason, tmp_path):
    (tmp_path / "old").write_text("old")
    (tmp_path / "folder").mkdir()

    with (
        pytest.raises(UsageError, match=reason),
        replacing(tmp_path / path, force=path != "old"),
    ):
        pass

    assert names(tmp_path) == ["folder", "old"]
