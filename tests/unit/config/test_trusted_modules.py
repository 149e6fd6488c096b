"""What the importing of judged bytes does besides what a configuration needs."""

import importlib
import importlib.resources
import sys
import threading

import pytest

from toolbus.config.trusted_modules import ModuleSource, TrustedModuleFinder
from toolbus.errors import LoadError


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """Return a function that judges sources by module names; what is imported is forgotten."""
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    before = set(sys.modules)

    def judge(configuration="a", **sources):
        modules = {}
        for name, source in sources.items():
            dotted = name.replace("__", ".")
            path = tmp_path.joinpath(*dotted.split("."))
            is_package = any(other.startswith(f"{name}__") for other in sources)
            file = path / "__init__.py" if is_package else path.with_suffix(".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            if source is not None:
                file.write_text("raise OSError('from the disk')")
            data = None if source is None else source.encode()
            modules[dotted] = ModuleSource(path if source is None else file, data, is_package)
        return TrustedModuleFinder(tmp_path / configuration, modules, {}, {tmp_path})

    yield judge
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_an_import_later_is_judged_as_well(judged):
    with judged(jm_one="X = 1", jm_late="Y = 2").importing():
        importlib.import_module("jm_one")

    assert importlib.import_module("jm_late").Y == 2


def test_a_folder_is_a_package_of_what_was_judged(judged):
    with judged(jm_space=None, jm_space__deep="X = 1").importing():
        module = importlib.import_module("jm_space.deep")

    assert module.X == 1


def test_what_came_into_a_package_is_refused_at_any_time(judged, tmp_path):
    with judged(jm_pack="", jm_pack__part="").importing():
        importlib.import_module("jm_pack.part")
    (tmp_path / "jm_pack/new.py").touch()

    with pytest.raises(ImportError, match=r"jm_pack/new\.py is not trusted"):
        importlib.import_module("jm_pack.new")


def test_other_threads_import_what_they_like(judged, tmp_path, monkeypatch):
    (tmp_path / "jm_free.py").write_text("X = 3")
    monkeypatch.syspath_prepend(tmp_path)
    results = []

    with judged(jm_any="").importing():
        thread = threading.Thread(
            target=lambda: results.append(importlib.import_module("jm_free").X)
        )
        thread.start()
        thread.join()
        sys.modules.pop("jm_free")
        with pytest.raises(ImportError, match="is not trusted"):
            importlib.import_module("jm_free")

    assert results == [3]


def test_a_configuration_judged_anew_replaces_what_it_had(judged):
    others = list(sys.meta_path)
    with judged(jm_same="X = 1", jm_user="from jm_same import X").importing():
        first = importlib.import_module("jm_user")
    with judged(jm_same="X = 2", jm_user="from jm_same import X").importing():
        second = importlib.import_module("jm_user")
    with judged(jm_same="X = 2", jm_user="from jm_same import X").importing():
        third = importlib.import_module("jm_user")

    assert (first.X, second.X) == (1, 2)
    assert third is second
    new = [finder for finder in sys.meta_path if finder not in others]
    assert [type(finder) for finder in new] == [TrustedModuleFinder]


def test_another_configuration_has_modules_of_its_own(judged):
    with judged(jm_twin="X = 1").importing():
        importlib.import_module("jm_twin")
    with judged("b", jm_twin="X = 2").importing():
        assert importlib.import_module("jm_twin").X == 2


def test_the_source_is_what_was_judged(judged):
    with judged(jm_source="def f():\n    return 1\n").importing():
        module = importlib.import_module("jm_source")

    assert module.__loader__.get_source("jm_source") == "def f():\n    return 1\n"
    assert module.f() == 1


def test_data_beside_a_package_is_read_from_its_file(judged, tmp_path):
    with judged(jm_data="", jm_data__x="").importing():
        module = importlib.import_module("jm_data")
    (tmp_path / "jm_data/words.txt").write_text("one")

    assert importlib.resources.files(module).joinpath("words.txt").read_text() == "one"


def test_a_file_that_came_later_is_refused(judged, tmp_path):
    with pytest.raises(LoadError, match="is newer than the trust in its configuration"):
        judged().load(tmp_path / "new.py")
