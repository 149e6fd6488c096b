"""Scripts at random: whatever bash runs, and where, is in the reading."""

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from toolbus.policy.shell.command_reader import read_command

# No program is found, so bash says where it would have run what; one in two fails.
SAYING = """
    exec 9>&1 >/dev/null 2>&1 </dev/null
    command_not_found_handle() {
        printf '%s\\0' "$PWD" "$@" $'\\1' >&9
        return $((RANDOM % 2))
    }
    export -f command_not_found_handle
    PATH=/nonexistent
    ulimit -t 2
    eval "$0"
"""
VALUES = (
    """a b "b_c" '*' $x "$y" $z a$x "$x$y" ${x:-d} ${y:+e} $1 "$1" {m,n} $(pp) -x ~/t $(echo_s)"""
)
WORDS = """$x $y "$x" "$y" $z a $1 "$@" ${x}b "${w[@]}" ${w[0]} {$x,c} {c,d}e $(echo_$x) $((1))"""
CHANGES = """N=V|N+=V|export_N=V|w=(W)|unset_N|read_N|declare_N=V|local_N=V|N=V_pp_$N|N=V_f_W|IFS=b
|set_--_W|shift|:_${N:=g}|printf_-v_N_h|N=V_eval_pp_$N|((N=3))|readonly_N|eval_N=V|w+=(W)|w[0]=V
|cd_d1|cd_d2|cd_..|cd_d1/d2|cd_nope|cd_-|pushd_d1|popd|cd_"$x"|cd_d1/..|cd_../d2|cd_nope/..|cd_-P_..
|cd_d1&&N=V|cd_"$PWD"|cd_d1||cd_d2"""


class Scripts:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, texts, separator=None):
        return self.random.choice(texts.split(separator)).strip().replace("_", " ")

    def words(self):
        return " ".join(self.pick(WORDS) for _ in range(self.random.randint(0, 3)))

    def change(self):
        text = self.pick(CHANGES, "|").replace("N", self.random.choice("xyz"))
        return text.replace("V", self.pick(VALUES)).replace("W", self.words())

    def statement(self, depth):
        inner, draw = depth - 1, self.random.random()
        if depth <= 0 or draw < 0.35:
            return f"{self.random.choice(['pp', 'qq', '$x', 'f', 'g'])} {self.words()}"
        if draw < 0.7:
            return self.change()
        form = self.random.choice(
            [
                "{ A; }",
                "( A )",
                "if A; then B; fi",
                "if A; then B; else A; fi",
                "for x in W; do A; done",
                "for y in W; do A; break; done",
                "f() { A; }",
                "g() { A; B; }",
                "case $x in a) A;& *) B;; esac",
                "A | B",
                "A && B",
                "A || B",
                "! A",
            ]
        )
        form = form.replace("W", self.words())
        return re.sub("[AB]", lambda _: self.statement(inner), form)

    def script(self):
        return "\n".join(self.statement(3) for _ in range(self.random.randint(2, 6)))


def pattern_of(command):
    pattern = ""
    for word in (command.program, *command.words):
        text = word.text
        if word.pattern:
            text = re.sub(r"^(\w+=|)~(?=/|$)", r"\1/home/me", text)
            text = re.sub(r"\\(.)", r"\1", text)
        if word.several:
            pattern += "(\0.*)?"
        elif word.known:
            pattern += "\0" + (".*" if word.pattern and "*" in text else re.escape(text))
        else:
            pattern += "\0" + re.escape(word.start) + "[^\0]*"
    return pattern


def is_of(command, folder, words, root):
    if not command.program.known:
        return True
    if not re.fullmatch(pattern_of(command), "".join("\0" + word for word in words), re.DOTALL):
        return False
    uncertain = not all(Path(root, each).is_dir() for each in command.assumed)
    if command.folder is None or uncertain:
        return True
    return os.path.normpath(Path(root, command.folder)) == folder


@pytest.mark.full
@pytest.mark.full
@pytest.mark.parametrize("seed", range(12))
def test_whatever_bash_runs_is_in_the_reading(seed, tmp_path):
    (tmp_path / "d1" / "d2").mkdir(parents=True)
    (tmp_path / "d2").mkdir()
    scripts = Scripts(seed)
    root, readable = os.path.realpath(tmp_path), 0

    for _ in range(40):
        script = scripts.script()
        reading = read_command(script, root)
        if any("the program is known only" not in entry.reason for entry in reading.unreadable):
            continue
        readable += 1
        done = subprocess.run(
            ["/bin/bash", "-c", SAYING, script],
            capture_output=True,
            cwd=root,
            stdin=subprocess.DEVNULL,
            env={"HOME": "/home/me"},
            check=False,
        )
        for ran in done.stdout.decode().split("\1\0")[:-1]:
            folder, *words = ran.split("\0")[:-1]
            assert any(is_of(c, folder, words, root) for c in reading.commands), (script, ran)

    assert readable > 10
