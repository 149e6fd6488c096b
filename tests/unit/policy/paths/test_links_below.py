"""Links that lead out of a folder, as far as somebody may look for them."""

import os

from toolbus.policy.paths import targets
from toolbus.policy.paths.targets import linked_folders


def test_links_to_folders_outside_are_found(tmp_path):
    real = tmp_path.resolve()
    folder, outside = real / "in", real / "outside"
    for each in (folder / "deep/deeper", outside, real / "in-a-name"):
        each.mkdir(parents=True)
    (outside / "file").write_text("x")
    for number, target in enumerate(
        ["../outside", "deep", outside / "file", "nowhere", "loop", real / "in-a-name", "/"]
    ):
        (folder / f"link{number}").symlink_to(target)
    (folder / "deep/deeper/link").symlink_to(outside)

    found = linked_folders(str(folder))

    assert sorted(found.paths) == ["/", str(real / "in-a-name"), str(outside)]
    assert found.is_complete
    assert linked_folders(os.fspath(real / "nothing")).paths == ()


def test_too_many_entries_are_not_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(targets, "MOST_ENTRIES", 2)
    for number in range(3):
        (tmp_path / str(number)).touch()

    assert not linked_folders(str(tmp_path)).is_complete
