"""Arguments that are a language of their own: what is harmless in them, and what is not."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.policy.commands import Command, Word
from toolbus.policy.programs.command_effects import effects_of
from toolbus.policy.programs.languages.awk_programs import ProgramError, program_tokens
from toolbus.policy.programs.languages.sed_scripts import ScriptError, read_script
from toolbus.policy.programs.languages.sql_statements import read_statements


def is_reading(program, *words):
    effects = effects_of(Command(Word(program), tuple(map(Word, words))))
    return effects.effects <= {"read", "network"} and not effects.unknown


@pytest.mark.parametrize(
    "script",
    [
        "s/a/b/g;p",
        "10,40p",
        "/x/,/y/d",
        "$!N;P;D",
        "s|a|b|;s,c,d,2",
        r"s/\/x/y/",
        "/a/{s/b/c/;n}",
        "y/abc/xyz/",
        "1~2d",
        "a\\\ntext w file",
        "s/[/]/x/",
    ],
)
def test_sed_only_prints(script):
    assert is_reading("sed", script, "f")


@pytest.mark.parametrize(
    "script",
    [
        "w out",
        "s/a/b/w out",
        "s/a/b/gw out",
        "1e rm x",
        "e",
        "s/a/b/e",
        "s/a/b/2pe",
        "/x/w out",
        "s/[/]/w out/",
        "s/a/b/;w out",
        "p}w out",
        "Zx",
        "s/a",
    ],
)
def test_sed_does_more(script):
    assert not is_reading("sed", script, "f")


@pytest.mark.parametrize(
    "program",
    [
        "{print $1}",
        "NR > 5",
        '/a|b/ {print "x | y > z"}',
        '{ print > "/dev/stderr" }',
        "{ if ($1 > 10) print (a > b) }",
        "END {print sum/NR}",
        "BEGIN {x = 1/2; print x}",
        '{ gsub(/system\\(/, ""); print }',
        '/[a-z]+[[:digit:]]/ { gsub(/[,;]/, ""); print }',
    ],
)
def test_awk_only_prints(program):
    assert is_reading("awk", program, "f")


@pytest.mark.parametrize(
    "program",
    [
        'BEGIN { system("x") }',
        '{ print > "out" }',
        '{ print $1, $2 >> "out" }',
        '{ print > ("a" NR) }',
        '{ print > "/dev/null" x }',
        '{ print | "sh" }',
        'BEGIN { "x" | getline }',
        'BEGIN { f = "system"; @f("x") }',
        '@load "x"',
        'if (1) /"/; system("x") #"/',
        'BEGIN { if (1) /"/ } END { system("x") } # "/',
        '{ printf "%s",\n$1 > "out" }',
        'BEGIN { print \\\n> "out" }',
        '/[/]"/; BEGIN { system("x") } #"/',
        '/[]/]"/; BEGIN { system("x") } #"/',
        '/[[:alpha:]/]"/; BEGIN { system("x") } #"/',
    ],
)
def test_awk_does_more(program):
    assert not is_reading("awk", program, "f")


def test_awk_reads_files_that_its_program_names():
    effects = effects_of(
        Command(Word("awk"), (Word('BEGIN {while ((getline l < ".env") > 0) print l}'),))
    )
    assert [use.word.text for use in effects.paths] == [".env"]

    effects = effects_of(Command(Word("awk"), (Word('BEGIN {ARGV[1] = ".env"; ARGC = 2} 1'),)))
    assert not effects.paths[0].word.known


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "select count(*), max(x) from t where a = 'drop table x;' -- delete\n",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "EXPLAIN ANALYZE SELECT 1",
        "PRAGMA table_info(t)",
        "SHOW TABLES; DESCRIBE t",
        'SELECT "update" FROM t',
    ],
)
def test_sql_only_reads(text):
    assert read_statements(text).reason == ""


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE t",
        "SELECT 1; DELETE FROM t",
        "WITH a AS (DELETE FROM t RETURNING 1) SELECT * FROM a",
        "SELECT * INTO x FROM t",
        "SELECT 1 INTO OUTFILE '/x'",
        "SELECT pg_read_file('x')",
        "SELECT load_extension('x')",
        "SELECT \"pg_read_file\"('x')",
        "PRAGMA writable_schema = 1",
        "PRAGMA journal_mode = wal",
        "EXPLAIN ANALYZE DELETE FROM t",
        "/*! DROP TABLE t */ SELECT 1",
        "COPY t TO PROGRAM 'x'",
        "SELECT 'a\\'; DROP TABLE t; --'",
        "'x'",
        "ATTACH 'x' AS y",
    ],
)
def test_sql_does_more(text):
    assert read_statements(text).reason


def test_a_query_names_files():
    assert read_statements("SELECT * FROM 'a.csv' JOIN 'https://x.example/b.csv'").files == [
        "a.csv",
        "https://x.example/b.csv",
    ]


@given(st.text(alphabet="s/e\\w;{}\n[]^aib, 1$!p", max_size=40))
def test_sed_scripts_of_any_form_are_read_or_refused(script):
    with suppress(ScriptError):
        read_script(script)


@given(st.text(alphabet='/"(){}>|\n#\\ax=;@+-', max_size=40))
def test_awk_programs_of_any_form_are_read_or_refused(program):
    with suppress(ProgramError):
        program_tokens(program)


@given(st.text(max_size=60))
def test_sql_of_any_form_is_read_or_refused(text):
    read_statements(text)


@given(
    st.sampled_from(["git", "tar", "find", "sed", "awk", "curl", "openssl", "aws", "dd", "test"]),
    st.lists(st.text(alphabet="-=+:@{}/ abcfx!()", max_size=8), max_size=6),
)
def test_any_words_have_some_effect(program, texts):
    effects = effects_of(Command(Word(program), tuple(map(Word, texts))))

    assert effects.effects
