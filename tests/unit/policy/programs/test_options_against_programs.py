"""Options are read as the programs read them: a line writes the files that it is said to write."""

import shutil
import subprocess

import pytest

from toolbus.policy.programs.command_effects import effects_of
from toolbus.policy.shell.command_reader import read_command

WRITING = [
    "sort -o out in",
    "sort -oout in",
    "sort -ruo out in",
    "sort --output=out in",
    "sort --out out in",
    "sort in -o out",
    "sort -k1 -to -o out in",
    "uniq in out",
    "uniq -cf1 in out",
    "tee -a out < in",
    "tee -- -o < in",
    "sed -i p in",
    "sed -ni p in",
    "sed -i.bak -e p in",
    "sed --in-place p in",
    "sed -n 'w out' in",
    "tar cf out in",
    "tar -cvf out in",
    "tar -c --file=out in",
    "cp -p in out",
    "cp -t dir in",
    "touch -r in out",
    "xxd -p in out",
    "find . -name in -fprint out",
    "awk '{ print > \"out\" }' in",
    "timeout -k 1 5 sort -o out in",
    "xargs -a in -I % touch out",
    "env -u A B=c nice -n 1 tee out < in",
]
READING = [
    "sort -to in",
    "sort -k 1,1 -b in",
    "sort --key=1 --field-separator o -- in",
    "uniq -f1 -w2 in",
    "sed -es/a/b/ -n in",
    "sed -sE -e p in",
    "grep -eo in",
    "grep -ivc -m1 o in",
    "head -1 in",
    "head -n1 -q in",
    "cut -do -f1 in",
    "paste -do in in",
    "nl -bpo in",
    "fold -w1 in",
    "od -An -c in",
    "base64 -w0 in",
    "tar -tf a.tar",
    "gzip -ck in",
    "awk -Fo -v o=out '{ print o }' in",
    "find . -name out -newer in",
    "date -d now -u +%s",
    "comm -12 in in",
    "timeout -k1 5 sort in",
    "xargs -a in -n1 -P 1 echo -o out",
]


def changed_by(line, folder):
    (folder / "dir").mkdir()
    (folder / "in").write_text("b a\na o\nb a\n")
    subprocess.run(["tar", "cf", "a.tar", "in"], cwd=folder, check=True)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, timeout=30, check=True)
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and before.get(path) != path.stat().st_mtime_ns
    }


def effects(line):
    reading = read_command(line)
    assert reading.unreadable == ()
    return [effects_of(command) for command in reading.commands]


def skip_without(line):
    programs = [command.program.text for command in read_command(line).commands]
    if missing := [name for name in programs if not shutil.which(name)]:
        pytest.skip(f"no {missing[0]} here")


@pytest.mark.parametrize("line", WRITING)
def test_what_is_written_is_known(line, tmp_path):
    skip_without(line)
    changed = changed_by(line, tmp_path)

    written = {use.word.text for each in effects(line) for use in each.paths if use.kind == "write"}

    assert changed
    for name in changed:
        assert name.removesuffix(".bak") in written or name.split("/")[0] in written
    assert any("write" in each.effects for each in effects(line))


@pytest.mark.parametrize("line", READING)
def test_what_is_only_read_is_known(line, tmp_path):
    skip_without(line)

    assert changed_by(line, tmp_path) == set()
    assert all(each.effects == {"read"} and not each.unknown for each in effects(line))
