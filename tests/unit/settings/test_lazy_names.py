"""What `specs` should not mention of names that a package loads late."""

import toolbus.store


def test_a_name_that_never_was_is_no_attribute():
    assert not hasattr(toolbus.store, "Storage")
