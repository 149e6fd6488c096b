"""Lines of keys in any TOML, compared with what the standard library reads from it."""

import json
import tomllib

from hypothesis import given
from hypothesis import strategies as st

from toolbus.toml.key_lines import key_lines

TRICKY = '''\
# [not] = "a table"
"a b".c = 1 # = [x]
'lit"' = 'a # = ] }'
[t] # [[u]]
m = """
[x]
y = 1
\\""" still
""\"""
n = \'\'\'
k = 2
\'\'\'\'
[[ t . "list" ]]
deep = { x = [ 1, # no ]
  { y = "}" } ], z.w = 1979-05-27T07:32:00Z }
[[t.list]]
[t.list.below]
"\\u0041" = -inf
'''


def test_tricky_files_are_read():
    lines = key_lines(TRICKY)

    assert lines == {
        ("a b",): 2,
        ("a b", "c"): 2,
        ('lit"',): 3,
        ("t",): 4,
        ("t", "m"): 5,
        ("t", "n"): 10,
        ("t", "list"): 13,
        ("t", "list", 0): 13,
        ("t", "list", 0, "deep"): 14,
        ("t", "list", 0, "deep", "x"): 14,
        ("t", "list", 0, "deep", "x", 0): 14,
        ("t", "list", 0, "deep", "x", 1): 15,
        ("t", "list", 0, "deep", "x", 1, "y"): 15,
        ("t", "list", 0, "deep", "z"): 15,
        ("t", "list", 0, "deep", "z", "w"): 15,
        ("t", "list", 1): 16,
        ("t", "list", 1, "below"): 17,
        ("t", "list", 1, "below", "A"): 18,
    }


WORDS = st.text(st.sampled_from("ab .#[]{}=,'\"\\\nü"), max_size=4)
SCALARS = st.booleans() | st.integers(-9, 9) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)


def quoted(word):
    """Return *word* as a string of TOML, whose escapes are those of JSON."""
    return json.dumps(word)


def inline(value):
    """Return *value* in TOML as it stands behind a key."""
    match value:
        case dict():
            return "{" + ", ".join([f"{quoted(k)} = {inline(v)}" for k, v in value.items()]) + "}"
        case list():
            return "[\n" + "".join([f" {inline(one)}, # ]\n" for one in value]) + "]"
        case str() if "\n" in value and "\\" not in value and '"' not in value:
            return f'"""\n{value}"""'
        case str() if not {"'", "\n"} & set(value):
            return f"'{value}'"
        case _:
            return json.dumps(value)


def tables(value, header=()):
    """Return the object *value* in TOML, with tables and arrays of tables below *header*."""
    plain, below = [], []
    for key, one in value.items():
        path = (*header, quoted(key))
        if isinstance(one, dict):
            below += [f"[{'.'.join(path)}] # [", *tables(one, path)]
        elif isinstance(one, list) and one and all(isinstance(item, dict) for item in one):
            for item in one:
                below += [f"[[ {' . '.join(path)} ]]", *tables(item, path)]
        else:
            plain.append(f"{quoted(key)} = {inline(one)}")
    return plain + below


def paths(value, above=()):
    """Return the paths of all that is in *value*."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inside:
        yield (*above, key)
        if isinstance(one, dict | list):
            yield from paths(one, (*above, key))


@given(st.dictionaries(WORDS, VALUES, max_size=4))
def test_every_key_is_found_in_its_line(value):
    text = "\n".join(tables(value))
    assert tomllib.loads(text) == value

    lines = key_lines(text)

    assert set(lines) == set(paths(value))
    written = text.split("\n")
    assert all(
        quoted(path[-1]) in written[line - 1]
        for path, line in lines.items()
        if isinstance(path[-1], str)
    )
