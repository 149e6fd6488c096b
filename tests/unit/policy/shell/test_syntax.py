import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolbus.policy.shell import syntax
from toolbus.policy.shell.command_reader import _read

WORDS = """a -b --c=d e=f 1 2 in do if time let { } ! [ ] ]] . : / % @ + , - = -- for export then
    a=b a[1]=2 function select 1. a/b a:b ~ é x-y_z"""


@settings(deadline=None)
@given(st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=4).map(" ".join))
def test_plain_words_are_read_as_shfmt_reads_them(text):
    quick = _read(text, ".")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(syntax, "_NOT_PLAIN", {text.partition(" ")[0]})
        slow = _read(text, ".")

    assert quick == slow


# Positions of signs, comments, and what is only looked at as a part of an expression.
SIGNS = """
    Type Pos End Offset Line Col ValuePos ValueEnd Left Right Lparen Rparen Lbrace Rbrace Dollar
    Last OpPos Position Semicolon Comments Hash Text ThenPos FiPos CondLast ThenLast WhilePos
    DoPos DonePos DoLast ForPos Case In Esac Time Bracket RsrvWord Parens PosixFormat
    Braces Orig With All X Y Post Slice Offset Length Pattern Elems
"""


def fields(kind):
    return set(kind.__struct_encode_fields__).union(*map(fields, kind.__subclasses__()))


def test_each_field_of_shfmts_tree_is_known():
    known = fields(syntax.Node).union(SIGNS.split())
    for text in (
        "a=1 b $c ${d:-e} ${f:1:2} ${g/h/i} ${!j*} ${k[0]} $((l + -m * (n))) $[o] <(p) >(q) *(r)",
        "if a; then b; elif c; then d; else e; fi; while f; do g; done; for h in i; do j; done",
        "for ((k = 0; k < 1; k++)) { l; }; case m in n) o ;; p) q ;& *) r ;;& esac; { s; }; (t)",
        "select u in v; do w; done; function x { y; }; z() (a); time -p b; ! c &",
        "[[ -f a && ! b =~ c || ( d -nt e ) ]]; ((f)); declare h=(i [1]=j) k+=l; m[1]=n",
        "a <<E <<-'F' <<<b >c >>d <e <>f >|g >&h &>i &>>j 2>&1 {k}>l # m\nE\nF\n# n",
        "$'a' $\"b\" `c` # d",
    ):
        written = {*re.findall('"([A-Z][A-Za-z]*)":', syntax._run(text.encode()).decode())}

        assert written <= known
        assert syntax.parse(text).stmts


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a\0b", "NUL"),
        ("a\rb", "carriage return"),
        ("\ud800", "Unicode"),
        ("'" + "a" * syntax.MAX_BYTES, "longer"),
        ("'", "not valid bash"),
        ("# a \\\nb", "comment"),
    ],
)
def test_what_is_refused_says_why(text, reason):
    with pytest.raises(syntax.SyntaxRefusedError, match=reason):
        syntax.parse(text)


def test_a_kind_of_node_that_nobody_knows_is_refused(monkeypatch):
    answer = b'{"Type": "File", "Stmts": [{"Cmd": {"Type": "Reversed"}}]}'
    monkeypatch.setattr(syntax, "_run", lambda data: answer)

    with pytest.raises(syntax.SyntaxRefusedError, match="unknown form"):
        syntax.parse("'a'")


def test_a_shfmt_that_does_not_end_is_killed(monkeypatch, tmp_path):
    slow = tmp_path / "shfmt"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    slow.chmod(0o755)
    monkeypatch.setattr(syntax, "find_shfmt", lambda: str(slow))
    monkeypatch.setattr(syntax, "_SECONDS", 0.3)

    with pytest.raises(syntax.SyntaxRefusedError, match="too long"):
        syntax.parse("'a'")
