"""Our rules are data: what is wrong with a record is said with its name."""

import pytest

from toolbus.redaction.secrets.rules import builtin_file, read_builtin

TEXT = """
[fragments]
HEX = '[0-9a-f]'
WORDS = ["ab", "c"]
TOKEN = '({HEX}{8}|{WORDS})'

[[rules]]
name = "acme-token"
finds = "A token of Acme"
pattern = '''
  \\bacme_
  {TOKEN}
'''
keywords = ["acme_"]

[[shapes]]
finds = "acme: …"
behind = ': {HEX}'
"""


def test_fragments_stand_in_patterns_of_several_lines():
    read = read_builtin(TEXT)

    assert read.rules[0].pattern == r"\bacme_([0-9a-f]{8}|ab|c)"
    assert read.shapes[0].behind == ": [0-9a-f]"


@pytest.mark.parametrize(
    ("before", "instead", "said"),
    [
        ("keywords", "keyword", "unknown field `keyword`"),
        ('["acme_"]', '["acme_"]\nloose = "yes"', r"Expected `bool`, got `str` - at `\$.loose`"),
        ('["acme_"]', '["acme_"]\nkind = "any"', r"Invalid enum value 'any' - at `\$.kind`"),
        ('["acme_"]', '["acme_"]\nreader = "any"', r"Invalid enum value 'any' - at `\$.reader`"),
        ("{TOKEN}", "{TOKENS}", "KeyError.'TOKENS'."),
        ('finds = "A token of Acme"\n', "", "missing required field `finds`"),
    ],
)
def test_a_mistake_names_the_rule_and_the_key(before, instead, said):
    with pytest.raises(ValueError, match=f"'acme-token'.*{said}"):
        read_builtin(TEXT.replace(before, instead))


def test_every_record_says_what_it_finds():
    file = builtin_file()

    assert all(
        record.finds
        for records in (file.rules, file.shapes, file.blocks, file.open_ends)
        for record in records
    )
