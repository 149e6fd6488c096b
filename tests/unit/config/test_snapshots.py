"""What belongs to a configuration: files that it names, and what they import."""

import sys
from pathlib import Path

import pytest

from toolbus.config import snapshots
from toolbus.config.snapshots import take_snapshot
from toolbus.errors import ConfigurationError


@pytest.fixture
def taken(tmp_path):
    """Return a function that writes files and returns what belongs to the configuration."""

    def take(text, **files):
        (tmp_path / "toolbus.toml").write_text(text)
        for name, source in files.items():
            file = tmp_path / f"{name.replace('__', '/')}.py"
            file = file.with_name(file.name.replace("init.py", "__init__.py"))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source)
        digests = take_snapshot(tmp_path / "toolbus.toml").digests
        return {Path(file).relative_to(tmp_path).as_posix() for file in digests} - {"toolbus.toml"}

    return take


def use(name):
    return f'[[component]]\nuse = "{name}"\n'


def test_all_forms_of_import_are_followed(taken):
    found = taken(
        use("a.py:X"),
        a="import b.c as d, e\nfrom f import g\nfrom h.i import j\ndef later():\n  import k\n",
        b__init="",
        b__c="",
        b__not="",
        e="try:\n  import l\nexcept ImportError: pass\n",
        f__init="from . import m\nfrom .n import x\n",
        f__g="from .. import e",
        f__m="",
        f__n="",
        h__i__init="",
        h__i__j="",
        k="",
        l="",
        not_this="",
    )

    assert found == {
        *("a.py", "b/__init__.py", "b/c.py", "e.py", "f/__init__.py", "f/g.py", "f/m.py"),
        *("f/n.py", "h/i/__init__.py", "h/i/j.py", "k.py", "l.py"),
    }


def test_a_file_in_a_package_takes_the_package_along(taken):
    found = taken(
        use("p/q/r.py"),
        p__init="from p import top",
        p__top="",
        p__q__init="",
        p__q__r="from ..s import t",
        p__s="",
        top="",
    )

    assert found == {"p/__init__.py", "p/top.py", "p/q/__init__.py", "p/q/r.py", "p/s.py"}


def test_files_in_all_texts_belong_to_it(taken, tmp_path):
    for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    settings = f"{{ p = 'a.txt', q = ['./b.txt', {{ r = '{tmp_path}/c.txt' }}] }}"
    others = f'["folder", "", "\\u0000", "{"x" * 5000}", "d.txt:word", "~no/x"]'

    found = taken(f"{use('x')}settings = {settings}\ntools = {others}")

    assert found == {"a.txt", "b.txt", "c.txt", "d.txt"}


def test_a_symlink_counts_as_what_it_leads_to(taken, tmp_path):
    (tmp_path / "words.txt").touch()
    (tmp_path / "link.txt").symlink_to("words.txt")

    assert taken(use("link.txt")) == {"words.txt"}


def test_what_is_installed_does_not_belong_to_it(taken, tmp_path, monkeypatch):
    site = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(site)

    found = taken(
        use("acme.rules:X") + use("a.py"),
        **{"site-packages__acme__init": "", "site-packages__acme__rules": ""},
        a="import acme, msgspec, toolbus, json",
        toolbus__init="",
        json="",
    )

    assert found == {"a.py"}


def test_a_module_elsewhere_in_the_project_belongs_to_it(taken, tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "src")

    found = taken(
        use("a.py"),
        a="from snapshot_lib.deep import inner, name",
        src__snapshot_lib__init="import snapshot_lib.other",
        src__snapshot_lib__other="",
        src__snapshot_lib__deep__init="",
        src__snapshot_lib__deep__inner="",
    )

    assert found - {"a.py"} == {
        f"src/snapshot_lib/{name}.py"
        for name in ("__init__", "other", "deep/__init__", "deep/inner")
    }
    assert "snapshot_lib" not in sys.modules


def test_what_a_package_offers_in_the_project_belongs_to_it(taken, tmp_path, monkeypatch):
    info = tmp_path / "src/mine-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[toolbus.components]\nsnap = snapshot_offer:X\n")
    monkeypatch.syspath_prepend(tmp_path / "src")

    assert taken(use("snap"), src__snapshot_offer="") == {"src/snapshot_offer.py"}


@pytest.mark.parametrize("source", ["def (:", "x = '\0'", "(" * 9_000, "from .... import x"])
def test_what_cannot_be_parsed_imports_nothing(taken, source):
    assert taken(use("a.py"), a=source, x="") == {"a.py"}


def test_two_modules_of_one_name_are_refused(taken):
    with pytest.raises(ConfigurationError, match=r"two modules are called 'u': .*; rename one"):
        taken(use("p/a.py") + use("q/b.py"), p__a="import u", q__b="import u", p__u="", q__u="")


def test_a_file_without_end_is_refused(taken, monkeypatch, tmp_path):
    monkeypatch.setattr(snapshots, "_LONGEST", 1_000)
    (tmp_path / "words.txt").write_text("x" * 1_001)

    with pytest.raises(ConfigurationError, match=r"words\.txt: it is longer than 1,000 bytes"):
        taken(use("words.txt"))
