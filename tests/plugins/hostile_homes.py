"""A home with a project in which names, settings and programs are hostile.

Whatever is run of it leaves a file ``HIT`` where it is run, or in the home.
"""

import os
import sqlite3
import subprocess
import tarfile
from pathlib import Path

HIT = '/usr/bin/touch "$HOME/HIT"'
TOUCH = "touch HIT"

# Names that a glob, a variable or a careless quote makes options or commands of.
NAMES = (
    *("$(touch HIT)", "`touch HIT`", "a;touch HIT", "|touch HIT", "a[$(touch HIT)]", "a b", "*"),
    *("-exec", "-oHIT", "-o", "--output=HIT", "-delete", "-fHIT", "--help", "-h", "-i", "-w"),
    *("--checkpoint=1", "--checkpoint-action=exec=touch HIT", "--compress-program=.\\hit", "-"),
    *("-eexec touch HIT", "-s", "-x", "&touch HIT", "new\nline", "~", "-c", "-ecmd=touch HIT"),
)
# Such that a glob which matches both is a whole command line.
PAIRS = (
    *(("-oHIT", "z"), ("-v", "a[$(touch HIT)]"), ("-va[$(touch HIT)]", "z"), ("-delete",)),
    *(("HIT", "z"), ("-e1etouch HIT", "z"), ("-fBEGIN{print > HIT}", "z"), ("--output=HIT", "z")),
    *(("-pa[$(touch HIT)]",), ("-Ctouch HIT", "-c1"), ("-i", "z"), ("-C", "-m", "z")),
)
SETTINGS = {
    ".envrc": TOUCH,
    ".bashrc": TOUCH,
    ".gdbinit": "shell touch HIT",
    ".vimrc": "!touch HIT",
    ".exrc": "!touch HIT",
    ".sqliterc": ".shell touch HIT",
    ".perlrc": "system 'touch HIT'",
    ".mailcap": "text/plain; touch HIT",
    ".jq": 'def map(f): "jq"',
    "Makefile": "$(shell touch HIT)\nall:\n\ttouch HIT\n",
    "package.json": '{"name": "shop", "scripts": {"test": "touch HIT", "prepare": "touch HIT"}}',
    "setup.py": "open('HIT', 'w')",
    "json.py": "open('HIT', 'w')",
    "os.py": "open('HIT', 'w')",
    "sitecustomize.py": "open('HIT', 'w')",
    "conftest.py": "open('HIT', 'w')",
    "Getopt/Long.pm": "package Getopt::Long; open my $f, '>', 'HIT'; 1;",
    "Dockerfile": "FROM scratch",
    "main.c": "int main() { return 0; }\n",
    "magic": "0 string x hit",
    "list.txt": "README.md\n$(touch HIT)\n-oHIT\n--output=HIT\n",
    "find.txt": "-delete\0README.md\0",
    "script.sed": "w HIT\n1e touch HIT\n",
    "script.awk": 'BEGIN { system("touch HIT"); print > "HIT" }',
    "script.sql": ".shell touch HIT\n.output HIT\ncreate table hit (x);\n",
    "script.sh": TOUCH,
    "hit.so": "",
}
CONFIGURATION = """
[core]
fsmonitor = "touch $HOME/HIT; false"
pager = "touch $HOME/HIT"
editor = "touch $HOME/HIT"
sshCommand = "touch $HOME/HIT"
hooksPath = hooks
[diff]
external = "touch $HOME/HIT"
[diff "hit"]
textconv = "touch $HOME/HIT; cat"
command = "touch $HOME/HIT"
[filter "hit"]
clean = "touch $HOME/HIT; cat"
smudge = "touch $HOME/HIT; cat"
process = "touch $HOME/HIT"
[alias]
st = "!touch $HOME/HIT"
[gpg]
program = "../hit"
[log]
showSignature = true
[credential]
helper = "!touch $HOME/HIT"
[remote "origin"]
url = "ext::touch $HOME/HIT"
"""
QUIET = "[core]\ncheckStat = minimal\ntrustctime = false\n[maintenance]\nauto = false\n"
OLD = 1_600_000_000


def furnish(home: Path) -> None:
    """Fill *home*, which is made."""
    shop = home / "shop"
    write(home / "notes.txt", "one\ntwo\n")
    write(home / ".bashrc", "true\n")
    write(home / ".gitconfig", "[user]\nname = A\nemail = a@example.com\n")
    write(home / "other/README.md", "other\n")
    _fill(shop)
    repository(shop)
    _fill(shop / "vendored")
    repository(shop / "vendored", QUIET + CONFIGURATION)
    write(shop / "vendored/.gitattributes", "* filter=hit diff=hit\n")
    repository(shop / "hooked", "[core]\ntrustctime = true\n")
    for name in ("post-index-change", "pre-auto-gc", "post-checkout", "reference-transaction"):
        script(shop / "hooked/.git/hooks" / name)
    git(shop, "clone", "-q", "--bare", "--template=", "vendored", "bare.git")
    write(shop / "bare.git/config", CONFIGURATION + "[core]\nbare = true\n")
    (shop / "link").symlink_to("../other")
    _age(home)
    for folder in (shop, shop / "vendored", shop / "hooked"):
        git(folder, "-c", "core.fsmonitor=false", "-c", "filter.hit.process=", *REFRESH)


REFRESH = (
    "-c",
    "filter.hit.clean=cat",
    "-c",
    "core.hooksPath=/nowhere",
    "update-index",
    "-q",
    "--refresh",
)


def _fill(folder: Path) -> None:
    write(folder / "README.md", "# shop\nSells things.\n")
    write(folder / "src/app.py", "import os\nprint('x')\n")
    write(folder / "src/b c.py", "x = 1\n")
    write(folder / "data.json", '{"a": [1, 2], "b": "$(touch HIT)"}\n')
    write(folder / "data.csv", "a,b\n3,4\n1,2\n")
    for name, text in SETTINGS.items():
        write(folder / name, text)
    for name in ("hit", "ls", "cat", "git", "sort", "node_modules/.bin/tsc", ".venv/bin/python"):
        script(folder / name)
    for name in NAMES:
        write(folder / "names" / name, "x\n")
    for number, names in enumerate(PAIRS):
        for name in names:
            write(folder / f"pair{number}" / name, "x\n")
    with sqlite3.connect(folder / "shop.db") as database:
        database.execute("create table goods (name, price)")
        database.execute("insert into goods values ('a', 1), ('$(touch HIT)', 2)")
    database.close()
    with tarfile.open(folder / "a.tar.gz", "w:gz") as archive:
        archive.add(folder / "src", "src")


def repository(folder: Path, configuration: str = QUIET) -> None:
    """Make *folder* a repository with a history and names of branches that are hostile."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "README.md", "# shop\n")
    write(folder / "LICENSE", "none\n")
    git(folder, "init", "-q", "-b", "main", "--template=")
    git(folder, "add", "README.md", "LICENSE", *(["src"] if (folder / "src").exists() else []))
    git(folder, "commit", "-qm", "$(touch HIT)")
    for name in ("side", "$(touch${IFS}HIT)", "`touch${IFS}HIT`", "a;touch${IFS}HIT"):
        git(folder, "branch", name)
    git(folder, "tag", "v1")
    write(folder / "README.md", "# shop\nSells things.\n")
    with (folder / ".git/config").open("a") as config:
        config.write(configuration)


def git(folder: Path, *words: str) -> None:
    """Run git in *folder*, at a time that is always the same."""
    date = {"GIT_AUTHOR_DATE": f"{OLD} +0000", "GIT_COMMITTER_DATE": f"{OLD} +0000"}
    alone = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    person = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(
        ["git", "-C", str(folder), *person, *words],
        env={**os.environ, **alone, **date},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def write(file: Path, text: str) -> None:
    """Write *text* to *file* and make the folders that it needs."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def script(file: Path) -> None:
    """Make *file* a program that leaves its mark."""
    write(file, f"#!/bin/sh\n{HIT}\n")
    file.chmod(0o755)


def _age(home: Path) -> None:
    """Date all files back, so that git needs to look at none of them again."""
    for folder, _, files in os.walk(home):
        for name in files:
            os.utime(Path(folder, name), (OLD, OLD), follow_symlinks=False)
