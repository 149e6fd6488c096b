"""What is known of personal data is data: whoever adds to it is told what does not fit."""

import re
from importlib import import_module

import msgspec
import pytest

from toolbus.redaction.personal.facts import Facts, facts


@pytest.mark.parametrize("identity", facts().identities, ids=lambda identity: identity.name)
def test_a_number_has_a_check_and_a_shape(identity):
    assert not identity.module or import_module(f"stdnum.{identity.module}").is_valid
    assert identity.shape or identity.bare
    assert identity.words or not (identity.bare or identity.weak)
    for shape in (identity.shape, identity.bare, identity.weak):
        # A pattern for all of them at once has the group's own text in place of `\1`.
        assert re.compile(shape).groups <= 1


def test_words_are_in_small_letters_and_begin_with_one():
    known = [*facts().words.values(), *[identity.words for identity in facts().identities]]

    for word in (word for words in known for word in words):
        assert re.match(r"[^\W\d_]", word), word
        assert word == word.lower(), word


def test_a_mistake_names_the_record_and_the_key():
    text = '[words]\n[[networks]]\nname = "Acme"\nprefix = "9"\nsize = [16]\n'

    with pytest.raises(msgspec.ValidationError, match=r"unknown field `size` - at `\$.networks"):
        msgspec.toml.decode(text, type=Facts)
