"""What `specs` should not mention of names that a package loads late."""

import pytest

import toolbus.store


def test_an_old_name_says_its_new_one():
    with pytest.raises(ImportError, match=r"toolbus\.store\.Stored is now toolbus\.store\.Append"):
        from toolbus.store import Stored  # noqa: F401


def test_a_name_that_never_was_is_no_attribute():
    assert not hasattr(toolbus.store, "Storage")
