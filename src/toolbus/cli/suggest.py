"""`toolbus policy suggest`: rules from the answers of a person, proved on recorded sessions."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.cli.options import store_address
from toolbus.cli.output.blocks import count_things, describe_call, print_json
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output, ProgressLine, busy_line
from toolbus.cli.questions.confirmation import DeclinedError, rendered, show_whole
from toolbus.cli.questions.typed_answers import YES
from toolbus.config.entries import read_entries
from toolbus.config.trust import effective_config, read_trusted
from toolbus.errors import ConfigurationError
from toolbus.hosts.install.settings_files import read_any, read_settings, replace_settings
from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.presence.person import person_terminal, require_person
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_reader
from toolbus.suggest.last_replay import find_conflicts, replay_policy
from toolbus.suggest.policy_text import edit_policy, rule_text
from toolbus.suggest.proof import Proof, Removal, find_removals, prove
from toolbus.suggest.proposals import Proposal, propose
from toolbus.suggest.recordings import read_recordings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from datetime import date

    from toolbus.cli.output.screen import Screen
    from toolbus.hosts.install.settings_files import SettingsFile
    from toolbus.store.store_reader import StoreReader
    from toolbus.suggest.recordings import Recording

_REFUSED = "the rule would allow a call that a person refused"
_MOST_CONFLICTS, _MOST_CALLS = 3, 5


class _ProvenRules(NamedTuple):
    """The *proposals* from *recordings* whose *proof* holds, and the policy's useless rules."""

    recordings: Sequence[Recording]
    proposals: tuple[Proposal, ...]
    proof: Proof
    left_out: Counter[str]
    removals: tuple[Removal, ...]


def suggest(parsed: argparse.Namespace, output: Output) -> int:
    """Print suggested rules with their proof; `--write` adds the rules of the person's choice."""
    settings = _read_policy(parsed)
    file, today = PolicyFile(settings.path, settings.data), datetime.now(UTC).date()
    screen, taken = open_screen(output), list[Proposal | Removal]()
    with ExitStack() as stack:
        addresses = [store_address(store) for store in parsed.stores or [None]]
        readers = [stack.enter_context(open_reader(each, live=True)) for each in addresses]
        proven = _prove_rules(file, readers, today)
        if not parsed.json:
            _show(proven, file, screen, today, with_rules=not parsed.write)
        if parsed.write and (taken := _ask(proven, today)):
            _write(settings, edit_policy(file, taken, today), proven.recordings)
    if parsed.json:
        print_json(output, _report(proven, file, today, taken))
    elif parsed.write:
        _show_end(settings, len(taken), screen)
    return 0


def _read_policy(parsed: argparse.Namespace) -> SettingsFile:
    """Return the file of the policy; only a person may open it for `--write`."""
    if parsed.write:
        require_person()
    settings = (read_settings if parsed.write else read_any)(_chosen(parsed.policy))
    if settings.data is None:
        raise ConfigurationError("there is no such file", str(settings.path))
    return settings


def _chosen(named: Path | None) -> Path:
    """Return the policy *named*, or the only policy of the active configurations."""
    if named is not None:
        return named.expanduser()
    effective = effective_config()
    documents = [effective.personal, effective.project and effective.project.document]
    files = [
        document.file.parent / Path(str(entry.settings["file"])).expanduser()
        for document in documents
        if document is not None
        for entry in read_entries(document)
        if entry.enabled and entry.use == "policy" and "file" in entry.settings
    ]
    if len(files) != 1:
        known = f"several are active: {', '.join(map(str, files))}" if files else "none is active"
        raise UsageError(f"which policy? {known}; name one with --policy FILE")
    return files[0]


# --- proving -------------------------------------------------------------------------------------


def _prove_rules(file: PolicyFile, readers: Sequence[StoreReader], today: date) -> _ProvenRules:
    """Return the rules for *file* without any against an answer, and its useless rules."""
    with busy_line("reading the questions"):
        recordings = read_recordings(readers, file)
        suggested = propose([call for each in recordings for call in each.older], file)
    proposals, left_out = suggested.proposals, Counter(suggested.left_out)
    with ProgressLine(Output(sys.stderr)) as line:
        proof = prove(file, edit_policy(file, proposals, today), recordings, line.show)
        while proof.blamed:
            refused = [each for each in proposals if each.rule["name"] in proof.blamed]
            left_out[_REFUSED] += len(refused)
            proposals = tuple([each for each in proposals if each not in refused])
            proof = prove(file, edit_policy(file, proposals, today), recordings, line.show)
    removals = tuple(find_removals(file, proof))
    return _ProvenRules(recordings, proposals, proof, left_out, removals)


# --- writing -------------------------------------------------------------------------------------


def _ask(proven: _ProvenRules, today: date) -> list[Proposal | Removal]:
    """Return the rules to add or to make comments, as the person chooses."""
    useless = [each for each in proven.removals if not each.listed]
    choices: list[Proposal | Removal] = [*proven.proposals, *useless]
    taken = list[Proposal | Removal]()
    with person_terminal() as terminal:
        for number, choice in enumerate(choices, 1):
            page = rendered(partial(_show_choice, proven, choice, today), whole=True)
            if not show_whole(terminal, page):
                break
            question = "add this rule" if isinstance(choice, Proposal) else "make it a comment"
            word = terminal.ask(f"{number} of {len(choices)}: {question}? [y/N, q ends] ")
            if word is None:
                raise DeclinedError
            if word.strip().lower() == "q":
                break
            if word.strip().lower() in YES:
                taken.append(choice)
    return taken


def _write(settings: SettingsFile, edited: PolicyFile, recordings: Sequence[Recording]) -> None:
    """Write *edited*; restore the file if a replay goes against the answers of a person."""
    before, data = settings.data or b"", edited.text.encode()
    if b"\r\n" in before:
        data = data.replace(b"\n", b"\r\n")
    with ExitStack() as undo, busy_line("replaying all sessions under both policies"):
        old = replay_policy(settings.path, recordings)
        replace_settings(settings, data)
        undo.callback(replace_settings, replace(settings, data=data), before)
        new = replay_policy(settings.path, recordings)
        if not (conflicts := find_conflicts(old, new, recordings)):
            undo.pop_all()
            return
    calls = ", ".join(conflicts[:_MOST_CONFLICTS])
    reason = f"a replay goes against the answers to {calls}; leave out the rule about them"
    raise ConfigurationError(f"nothing was written: {reason}", str(settings.path))


# --- showing -------------------------------------------------------------------------------------


def _report(
    proven: _ProvenRules, file: PolicyFile, today: date, taken: Sequence[Proposal | Removal]
) -> dict[str, Any]:
    """Return the document for programs; the *taken* rules were written."""
    facts = proven._replace(recordings=())._asdict()
    rules = [
        {**each._asdict(), "toml": "\n".join(rule_text(each, today))} for each in proven.proposals
    ]
    names = [each.name if isinstance(each, Removal) else each.rule["name"] for each in taken]
    return {"policy": str(file.file), **facts, "proposals": rules, "taken": names}


def _show(
    proven: _ProvenRules, file: PolicyFile, screen: Screen, today: date, *, with_rules: bool
) -> None:
    """Write the suggestions, their proof, and the reasons against further rules."""
    screen.whole(str(file.file), style="strong")
    for proposal in proven.proposals if with_rules else ():
        screen.line()
        _show_choice(proven, proposal, today, screen)
    screen.line()
    _show_proof(proven.proof, screen)
    if proven.left_out:
        screen.line(Span("left out", "strong"))
        rows = [(f"{number:,}", reason) for reason, number in proven.left_out.most_common()]
        screen.table(rows, indent=2)
    for each in proven.removals:
        if not each.listed:
            screen.prose(f"useless: {_reason(each)}")
    if silent := [repr(each.name) for each in proven.removals if each.listed]:
        calls = count_things(proven.proof.total.calls, "call")
        screen.prose(f"silent in {calls}: {', '.join(silent)}", style="dim")


def _show_choice(
    proven: _ProvenRules, choice: Proposal | Removal, today: date, screen: Screen, *_: bool
) -> None:
    """Write a rule to add with its evidence, or a rule to remove with the reason."""
    if isinstance(choice, Removal):
        screen.prose(_reason(choice))
        return
    for line in rule_text(choice, today):
        screen.whole(line, style="dim" if line.startswith("#") else "")
    share, questions = proven.proof.shares[choice.rule["name"]], proven.proof.total.before
    text = f"answers {share:,} of {count_things(questions, 'question')}"
    screen.prose(text, indent=2, style="good")
    # An exact rule says itself which call it is about.
    calls = [describe_call(each.call) for each in choice.evidence if choice.form == "family"]
    for words, number in Counter(calls).most_common(_MOST_CALLS):
        screen.line(*words, right=[count_things(number, "time")], indent=4)
    if choice.caution:
        screen.prose(choice.caution, indent=2, style="asked")


def _reason(removal: Removal) -> str:
    return f"rule {removal.name!r} {removal.reason}"


def _show_proof(proof: Proof, screen: Screen) -> None:
    denied, allowed = proof.denied or "nothing", proof.allowed or "nothing"
    effect = f"{denied} denied that you allowed; {allowed} allowed that you refused"
    questions = count_things(proof.total.before, "question")
    screen.prose(f"{questions} would have been {proof.total.after:,}; {effect}", style="good")
    for title, each in (("older, with the evidence", proof.older), ("newer", proof.newer)):
        calls = count_things(each.calls, "call")
        screen.line(
            f"{title}: {each.before:,} would have been {each.after:,}, in {calls}", indent=2
        )
    if proof.hidden:
        hidden = count_things(proof.hidden, "call")
        screen.prose(f"{hidden} with hidden values count as they were", indent=2, style="dim")


def _show_end(settings: SettingsFile, count: int, screen: Screen) -> None:
    """Write the number of changes, and the configurations without trust from now on."""
    if not count:
        screen.line("nothing was written")
        return
    screen.whole(f"✓ {count_things(count, 'change')} in {settings.path}", style="good")
    for file, digests in read_trusted().items():
        if str(settings.real) in digests:
            text = f"{file} names it and is no longer trusted, so hooks stop all calls until:"
            screen.whole(text, style="asked")
            screen.command("toolbus", "trust", file)
