import pytest

from toolbus.policy.commands import CommandReading, PathUse, Unreadable, Word
from toolbus.policy.paths.file_access import touches
from toolbus.policy.paths.path_patterns import path_patterns
from toolbus.policy.paths.resolver import CallPlace, PathResolver, find_folders, next_folder


@pytest.fixture
def resolver(tmp_path):
    (tmp_path / "shop" / "src").mkdir(parents=True)
    (tmp_path / "shop" / "deep").symlink_to("/usr/share")
    return PathResolver(CallPlace(str(tmp_path / "shop"), str(tmp_path)))


def test_a_folder_starts_where_the_shell_began(resolver):
    shop = resolver.place.folder

    assert find_folders(".", resolver) == ((shop,), "")
    assert find_folders("src/../src", resolver) == ((f"{shop}/src",), "")
    assert find_folders("/usr", resolver) == (("/usr",), "")
    assert find_folders("~/shop", resolver) == ((shop,), "")
    assert find_folders("~root", resolver).paths


def test_it_goes_up_as_a_shell_does(resolver):
    assert find_folders("src/..", resolver).paths == (resolver.place.folder,)
    assert "through a link" in find_folders("deep/..", resolver).doubt


def test_it_may_be_unknown(resolver):
    assert find_folders(None, resolver).doubt
    assert find_folders("~nobody-is-called-so", resolver).doubt
    assert find_folders("src", PathResolver(CallPlace(None))).doubt
    assert find_folders("/usr", PathResolver(CallPlace(None))) == (("/usr",), "")


def test_where_no_folder_is_a_command_may_run_on_the_way(resolver):
    shop = resolver.place.folder

    assert find_folders("a/b", resolver) == (
        (f"{shop}/a/b", shop, f"{shop}/a", f"{shop}/b"),
        "",
    )
    assert find_folders("/nowhere", resolver) == (("/nowhere", shop), "")
    assert find_folders("/nowhere/else", resolver).doubt
    assert find_folders("a/b/c/d", resolver).doubt


@pytest.mark.parametrize("folder", ["new", "new/inner", "/nowhere", "/nowhere/else", "a/b/c/d"])
def test_a_folder_that_is_not_there_hides_no_file(resolver, folder):
    patterns = path_patterns(["./key"], resolver.place.folder)

    assert touches(PathUse(Word("key"), "read", folder), patterns, resolver).answer != "no"


def test_a_shell_that_keeps_its_state_is_where_it_went(resolver):
    shop = resolver.place.folder

    assert next_folder(CommandReading((), (), "src"), resolver) == f"{shop}/src"
    assert next_folder(CommandReading((), (), "nowhere"), resolver) is None
    assert next_folder(CommandReading((), (), None), resolver) is None
    assert next_folder(CommandReading((), (Unreadable("$x", ""),), "src"), resolver) is None
