"""Lines that look harmless and are not, under the policy to start with; and such that are."""

from importlib.resources import files

import pytest

from toolbus.events.catalogue import Scope
from toolbus.messages.records import ToolCall
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.rules.judge import CallJudge
from toolbus.policy.rules.policy_file import read_policy
from toolbus.policy.shared_facts import StatedFacts


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "shop"
    for name in (
        "src/app.py",
        "README.md",
        ".env",
        ".git/HEAD",
        "evil/settings.json",
        "config.toml",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    text = files("toolbus.policy").joinpath("starting_policy.toml").read_bytes()
    (folder / "policy.toml").write_bytes(text)
    return folder


def verdict(project, line):
    rules = read_policy(project / "policy.toml")
    reader = CallReader(rules, LineCache())
    call = ToolCall(id="1", name="shell", arguments={"command": line})
    facts = reader.facts(call, None, Scope(), str(project), origins=StatedFacts())
    return CallJudge(rules).judge(facts).verdict


@pytest.mark.parametrize(
    "line",
    [
        # What shows the environment, and a package at an address.
        "launchctl getenv TOKEN",
        "systemctl show-environment",
        "rpm -qp http://example.com/a.rpm",
        # Options of programs that read, which run something.
        "man -C ./pager.conf ls",
        "nm @arguments",
        "cppcheck --clang=./x src",
        "clang-tidy --extra-arg=-fplugin=./x.so src/a.c",
        "cowsay -f ./x.cow hello",
        "openssl speed -engine ./x.so",
        "openssl list -provider-path . -provider x",
        "docker --config ./x ps",
        "git bisect view push --force",
        "make 'X!=rm x'",
        "make 'X=$(shell rm x)'",
        # A descriptor that is a folder.
        "cp settings.json /dev/fd/3/ 3<.claude",
        "cp x /dev/fd/3/ 3<.git/hooks",
        "grep -r x /dev/fd/3 3<.",
        "grep -r x /dev/fd/3/ 3<.",
        "tar cf x.tar /proc/self/fd/3/ 3<.",
        "cat /proc/self/task/1/environ",
        "cat /proc/1/task/*/environ",
        "systemd-analyze log-level debug",
        # A process that is running is changed.
        "ionice -c3 -p 1",
        "taskset -p 1 1",
        "chrt -p 1 1",
        # Names and modes that other programs lie behind.
        "service ../../tmp/evil status",
        "curl file:/etc/passwd",
        "curl FILE:/etc/passwd",
        "curl --url=file:/etc/passwd",
        "curl file:///etc/pass%77d",
        "curl --proto-default file /etc/passwd",
        "curl 'fil[e-e]:/etc/passwd'",
        "curl '{localhost,file:///etc/passwd}'",
        "curl -w '%output{/tmp/x}a' localhost",
        "curl -sw '%output{>>/tmp/x}a' localhost",
        "curl -w @README.md localhost",
        "curl gopher://localhost:6379/_FLUSHALL",
        "curl dict://localhost:6379/FLUSHALL",
        "curl dict.localhost:6379/FLUSHALL",
        "curl --url telnet://localhost",
        "sed -i'.git/hooks/*' s/a/b/ src/pre-commit",
        "sed --in-place='../*' s/a/b/ README.md",
        "pytest --basetemp=src",
        "pytest src --basetemp src",
        "pytest --base=src",
        "pytest --pastebin=all",
        "pytest @arguments",
        "X=$(printf %s --basetemp=..); pytest $X",
        "coverage html -d /tmp/x",
        "coverage xml -o ../x",
        "coverage erase --data-file=/tmp/x",
        "tox -x testenv.commands=rm",
        "tox --override=testenv.commands=rm",
        "meson test --wrap='rm x'",
        "sv exit status",
        "sv -w 5 down status",
        "echo 'delete /Users/x' | dscl",
        "openssl req -x509 -noout",
        # A command behind -exec that goes on, or ends before its last word.
        "find . -maxdepth 0 -exec tee + x \\;",
        "X=$(printf ';'); find . -exec echo $X -delete \\;",
        "X=$(printf ';'); find . -exec echo \"$X\" -delete \\;",
        "find . -exec echo [;] -delete \\;",
        "X=$(printf ';'); fd -x echo \"$X\" -x rm",
        "git -C /proc/1/root/x log",
        "cd /proc/self/task/1/cwd && git status",
        # Words of programs that run others.
        "fd . src -x cat {} ';' -x git push",
        "fd -x cat $x",
        "echo .env | xargs -I{} -n2 cat",
        "echo .env | xargs -I{} -L1 cat",
        "env -u X -S 'git push'",
        "env -C src -S 'rm x'",
        "poetry run -P evil pytest",
        "poetry run --project=/evil pytest",
        # A variable that may hold options.
        "x=$(cat README.md); sort -k $x src/app.py",
        "x=$(cat README.md); git log -n $x",
        "x=$(cat README.md); rg -e $x src",
        "x=$(cat README.md); find src -name $x",
        # Another name for a file outside, by which it can be written.
        "ln ../other name",
        "link ../other name",
        "cp -l ../other name",
        "cp -al ../others names",
        "cp -alt . ../others",
        "rsync -a --link-dest=../../others ../others/ names",
        # What the shell expands in the middle of a word.
        "dd if=~/.ssh/id_rsa",
        "dd if=README.md of=~/.bashrc",
        # Where a shell may be in the end.
        "cd nowhere || cd ..; touch x",
        "cd nowhere || { cd ..; }; touch x",
        "if ! cd nowhere; then cd ..; fi; touch x",
        # Options that write elsewhere, or remove.
        "tar xf a.tar --one-top-level=../x",
        "tar cf a.tar --remove-files ../x",
        "rsync -rK ./src/ .",
        "patch --follow-symlinks -p0 < README.md",
        "patch -b -B ../x/ -p0 < README.md",
        "cargo fmt -- ../x.rs",
        "cargo fmt --manifest-path /tmp/x/Cargo.toml",
        # What no rule names as a file, or what is read to be sent.
        "dscl . delete /Users/x",
        "scutil --set HostName x",
        "curl -n localhost",
        # Options that write, or read names out of a file and print them.
        "zstdcat x -o /tmp/y",
        "cppcheck --checkers-report=/tmp/x src",
    ],
)
def test_what_does_more_than_it_seems_is_not_allowed(project, line):
    assert verdict(project, line) != "allow"


@pytest.mark.parametrize("line", ["tar xf a.tar -C src", "cd src; tar xf a.tar"])
def test_an_archive_is_not_unpacked_through_links_that_lead_out(project, line):
    before = verdict(project, line)
    (project.parent / "other").mkdir()
    (project / "src/link").symlink_to("../../other")
    out = verdict(project, line)
    (project / "src/link").unlink()
    (project / "src/link").symlink_to("../evil")

    assert (before, out, verdict(project, line)) == ("allow", "ask", "allow")


@pytest.mark.parametrize(
    "line",
    ["sort src/*", "sort *", "sort *.md", 'for f in *; do sort "$f"; done', "find * -type f"],
)
def test_a_pattern_is_no_option_as_long_as_no_file_has_such_a_name(project, line):
    before = verdict(project, line)
    (project / "-oHIT.md").touch()

    assert before == "allow"
    assert verdict(project, line) == ("allow" if "src" in line else "ask")


@pytest.mark.parametrize(
    "line",
    [
        "touch ./-oHIT; sort *",
        "cp -r evil/. . && sort *",
        'cd "$UNKNOWN" && sort *',
        "cd src && touch ./-oHIT && sort *.py",
    ],
)
def test_a_pattern_is_doubtful_where_the_line_may_make_such_a_file(project, line):
    assert verdict(project, line) != "allow"


def test_a_pattern_behind_two_dashes_is_never_doubtful(project):
    assert verdict(project, "touch ./-oHIT; sort -- *") == "allow"


@pytest.mark.parametrize(
    "line",
    [
        "grep -r -e x .",
        "grep -re x .",
        "grep -rf README.md .",
        "git grep --no-index -e x",
        "git grep -e x --untracked",
        "git diff --no-index src .",
        "git diff /mnt .",
        "diff -N . src",
        "diff -rN --to-file=. src",
        "difft . src",
        "wc --files0-from=.env",
        "7z l x @.env",
        "strings @.env",
        "git archive HEAD .env",
        "git log -L1,5:.env",
        "git log -L:name:.env",
        "git stash show -p -- .env",
        "git show HEAD -- ':(top).env'",
        "git log -p -- '*.env'",
        "git format-patch --stdout HEAD -- .env",
        "git config list --file .env",
        "git notes add -F .env",
    ],
)
def test_what_reads_a_denied_file_is_denied(project, line):
    assert verdict(project, line) == "deny"


@pytest.mark.parametrize(
    "line",
    [
        "git diff -- '*.py'",
        "git log -p -- ':!src' README.md",
        "git show HEAD:README.md",
        "git log -L1,5:README.md",
        "git stash show -p",
        "git diff HEAD~1 -- src",
        "grep -r -e x src",
        "grep -rn --include='*.py' -e x -e y .",
        "diff -u README.md config.toml",
        "nm build/app",
        "make TESTS='a b' test",
        "gzip -k README.md",
        "xzcat x.xz",
    ],
)
def test_what_is_alike_and_harmless_is_allowed(project, line):
    assert verdict(project, line) == "allow"


@pytest.mark.parametrize(
    "line",
    [
        # A folder that the line itself makes.
        "mkdir -p .codex && cp config.toml .codex/",
        "mkdir -p .codex && mv config.toml .codex",
        "mkdir .codex; install config.toml .codex",
        "mkdir .claude; cp -r evil/. .claude",
        "for d in .codex; do cp config.toml $d/; done",
        "cp -r evil .claude",
        "mv evil .claude",
        # A folder whose files are written by another name afterwards.
        "ln -s src .claude",
        "ln -s ../x/.claude .",
        "mkdir .codex; tar xf x.tar -C .codex",
        "git mv evil .claude",
        # What find finds.
        "find . -name policy.toml -exec cp README.md {} ';'",
        # The name that is left of another one.
        "gunzip policy.toml.gz",
    ],
)
def test_settings_are_not_written_by_another_way(project, line):
    assert verdict(project, line) != "allow"


@pytest.mark.parametrize(
    "line",
    [
        "cp README.md src/copy.md",
        "mkdir -p out && cp README.md out/",
        "mv config.toml src/",
        "ln -s src/app.py app",
        "mkdir -p .github/workflows && cp config.toml .github/workflows/ci.yml",
        "mkdir -p .vscode && echo x > .vscode/tasks.json",
        "gzip -d data.csv.gz",
        "clang-format -i src/app.c",
        "cp -r src lib",
    ],
)
def test_other_files_are_put_where_they_shall_be(project, line):
    assert verdict(project, line) == "allow"


@pytest.mark.parametrize(
    "line",
    [
        "pnpm run deploy",
        "yarn run publish",
        "yarn run test && yarn run deploy",
        "mvn test deploy",
        "gradle test publish",
    ],
)
def test_what_others_use_is_asked_about(project, line):
    assert verdict(project, line) == "ask"


def test_npx_runs_what_the_project_has(project):
    for name in ("jest", "tsc", "env", "uv", "cowsay"):
        (project / "node_modules/.bin").mkdir(parents=True, exist_ok=True)
        (project / "node_modules/.bin" / name).touch()

    for line in (
        "npx jest",
        "npx --no-install jest src",
        "npx tsc --noEmit",
        "cat x && npx -y jest",
    ):
        assert verdict(project, line) == "allow", line
    for line in (
        "npx eslint",
        "npx cowsay",
        "npx jest@1",
        "npx -p jest jest",
        "npx -c jest",
        "npx env rm x",
        "npx uv run rm x",
        "npx jest ../other",
        "npx $tool",
        "cd src && npx jest",
        "cd .. && npx jest",
        "touch x && npx jest",
    ):
        assert verdict(project, line) == "ask", line


def test_tools_of_the_project_are_code(project):
    for line in (".venv/bin/pytest", "a/.venv/bin/pytest", "./gradlew test", "vendor/bin/rspec"):
        assert verdict(project, line) == "allow", line
    for line in (
        ".venv/bin/cat README.md",
        ".venv/bin/nosuch",
        ".venv/bin/env pytest --x=y | sh",
        ".venv/bin/bash -c 'pytest; rm x'",
        ".venv/bin/python -c x",
        "node_modules/.bin/eval pytest",
        "../.venv/bin/pytest",
        "/opt/.venv/bin/pytest",
        "cd .. && .venv/bin/pytest",
        ".venv/bin/../../pytest",
    ):
        assert verdict(project, line) == "ask", line


@pytest.mark.parametrize(
    "line",
    [
        "cat .env; coproc ls",
        "coproc cat .env",
        "coproc X { cp .env x; }",
        "cat .env; let x=1",
        'let "x=$(cat .env)"',
        "trap 'rm -rf /tmp/x' EXIT",
        "trap -- 'cat ~/.ssh/id_rsa' EXIT",
        "trap 'trap \"git push --force\" EXIT' EXIT",
        "dd if=x of=.env",
        "dd if=x of=~/.ssh/id_rsa",
        "ls | entr -sr 'cat .env'",
        "ls | entr -s -r 'cat .env'",
        "flock --com 'cat .env' lock",
        "curl file:.env",
        "curl File:/proc/self/environ",
    ],
)
def test_what_cannot_be_known_hides_no_denial(project, line):
    assert verdict(project, line) == "deny"
