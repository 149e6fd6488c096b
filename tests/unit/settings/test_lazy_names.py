"""What `specs` should not mention of names that a package loads late."""

from importlib import import_module

import pytest

import toolbus.store


@pytest.mark.parametrize(
    ("package", "old", "new"),
    [
        ("toolbus.store", "Stored", "AppendRequest"),
        ("toolbus.config", "Configured", "ConfiguredComponent"),
        ("toolbus.mcp.proxy", "Listening", "ListenOptions"),
    ],
)
def test_an_old_name_says_its_new_one(package, old, new):
    holder = import_module(package)

    with pytest.raises(ImportError) as caught:
        getattr(holder, old)

    assert str(caught.value) == f"{package}.{old} is now {package}.{new}"
    assert hasattr(holder, new)


def test_a_name_that_never_was_is_no_attribute():
    assert not hasattr(toolbus.store, "Storage")
