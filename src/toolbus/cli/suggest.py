"""`toolbus policy suggest`: rules from the answers of a person, proved on recorded sessions."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.cli.options import store_address
from toolbus.cli.output.blocks import count_things, describe_call, print_json
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output, ProgressLine, busy_line
from toolbus.cli.questions.confirmation import DeclinedError, show_whole
from toolbus.cli.questions.typed_answers import YES
from toolbus.config.entries import read_entries
from toolbus.config.trust import effective_config, read_trusted
from toolbus.errors import ConfigurationError
from toolbus.hosts.install.settings_files import read_settings, replace_settings
from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.presence.person import person_terminal, require_person
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_reader
from toolbus.suggest.policy_text import edit_policy, rule_text, with_rules
from toolbus.suggest.proof import JudgedCalls, Proof, ProofFigures
from toolbus.suggest.proposals import Proposal, propose
from toolbus.suggest.recordings import Recordings

if TYPE_CHECKING:
    import argparse
    from datetime import date

    from toolbus.cli.output.screen import Screen
    from toolbus.hosts.install.settings_files import SettingsFile
    from toolbus.policy.tools.diagnostics import Diagnostic
    from toolbus.presence.person import PersonTerminal

_REFUSED = "a rule for it would allow a call that you refused"
_MOST_CALLS = 5
_CHOICE = "add this rule? [y/N; q keeps those taken, Ctrl-D drops them] "
_ANSWERS = YES | {"", "n", "no", "q"}


class _ProvenRules(NamedTuple):
    """The *proposals* whose *proof* holds, the calls *left_out* by reason, and useless rules.

    *damaged* rows were not read. *taken* are the names of the rules that were written.
    """

    proposals: tuple[Proposal, ...]
    proof: Proof
    left_out: Counter[str]
    removals: tuple[Diagnostic, ...]
    damaged: int
    taken: tuple[str, ...] = ()


def suggest(parsed: argparse.Namespace, output: Output) -> int:
    """Print suggested rules with their proof; `--write` adds the rules of the person's choice."""
    if parsed.write:
        require_person()
    policy = parsed.policy or _active_policy()
    settings = read_settings(policy) if parsed.write else None
    file, today = PolicyFile(policy, settings.data if settings else None), datetime.now(UTC).date()
    judged, proven = _prove_rules(file, parsed.stores or [None])
    screen = open_screen(output)
    if not parsed.json:
        _show(proven, file, screen, today, with_rules=not parsed.write)
    if settings:
        proven = _write(settings, file, judged, proven, today)
    if parsed.json:
        print_json(output, _report(proven, file))
    elif settings:
        _show_end(settings, proven, screen)
    return 0


def _active_policy() -> Path:
    """Return the only policy of the active configurations."""
    effective = effective_config()
    files = [
        document.file.parent / Path(str(entry.settings["file"])).expanduser()
        for document in (effective.personal, effective.project and effective.project.document)
        if document is not None
        for entry in read_entries(document)
        if entry.enabled and entry.use == "policy" and "file" in entry.settings
    ]
    if len(files) != 1:
        known = f"several are active: {', '.join(map(str, files))}" if files else "none is active"
        raise UsageError(f"which policy? {known}; name one with --policy FILE")
    return files[0]


def _prove_rules(file: PolicyFile, stores: list[str | None]) -> tuple[JudgedCalls, _ProvenRules]:
    """Return the rules for *file* from *stores*, without any against an answer."""
    with ExitStack() as stack:
        addresses = map(store_address, stores)
        readers = [stack.enter_context(open_reader(each, live=True)) for each in addresses]
        with busy_line("reading the questions"):
            recordings = Recordings(readers, file)
            proposals, reasons = propose(recordings.older, file)
        with ProgressLine(Output(sys.stderr)) as line:
            judged = JudgedCalls(file, recordings, line.show)
    left_out, proof = Counter(reasons), judged.prove(with_rules(file, proposals))
    while proof.blamed:
        blamed = [each for each in proposals if each.rule["name"] in proof.blamed]
        left_out[_REFUSED] += sum([each.covers for each in blamed])
        proposals = tuple([each for each in proposals if each not in blamed])
        proof = judged.prove(with_rules(file, proposals))
    removals = tuple(judged.find_removals())
    return judged, _ProvenRules(proposals, proof, left_out, removals, recordings.damaged)


def _write(
    settings: SettingsFile,
    file: PolicyFile,
    judged: JudgedCalls,
    proven: _ProvenRules,
    today: date,
) -> _ProvenRules:
    """Write the rules of the person's choice; return their own proof."""
    if proven.proposals:
        edit_policy(file, proven.proposals, today)  # A mistake is known before a person reads.
    if not (taken := _ask(proven, today)):
        return proven
    edited = edit_policy(file, taken, today)
    if (proof := judged.prove(edited)).blamed:
        raise ConfigurationError(
            f"{_REFUSED}, as files are now; nothing is written", str(file.file)
        )
    ends = "\r\n" if b"\r\n" in (settings.data or b"") else "\n"
    replace_settings(settings, edited.text.replace("\n", ends).encode())
    names = tuple([each.rule["name"] for each in taken])
    return proven._replace(proof=proof, taken=names)


def _ask(proven: _ProvenRules, today: date) -> list[Proposal]:
    """Return the rules to add, as the person chooses."""
    taken = list[Proposal]()
    with person_terminal() as terminal:
        for number, proposal in enumerate(proven.proposals, 1):
            page = StringIO()
            _show_rule(proven, proposal, today, open_screen(Output(page, is_terminal=True)))
            if not show_whole(terminal, page.getvalue()):
                raise DeclinedError
            place = f"{number} of {len(proven.proposals)}"
            word = _ask_word(terminal, f"{place}: {_CHOICE}")
            if word == "q":
                break
            if word in YES:
                taken.append(proposal)
    return taken


def _ask_word(terminal: PersonTerminal, prompt: str) -> str:
    """Return the typed answer to *prompt*; asks again after any other word."""
    while (word := terminal.ask(prompt)) is not None:
        if word.strip().lower() in _ANSWERS:
            return word.strip().lower()
    raise DeclinedError


def _report(proven: _ProvenRules, file: PolicyFile) -> dict[str, Any]:
    rules = [each._asdict() for each in proven.proposals]
    removals = [each._asdict() for each in proven.removals]
    facts = {**proven._asdict(), "proposals": rules, "removals": removals}
    return {"policy": str(file.file), **facts}


def _show(
    proven: _ProvenRules, file: PolicyFile, screen: Screen, today: date, *, with_rules: bool
) -> None:
    """Write the suggestions, their proof, and the reasons against further rules."""
    if not proven.proposals:
        screen.line("no rule to suggest")
    screen.whole(str(file.file), style="strong")
    for proposal in proven.proposals if with_rules else ():
        _show_rule(proven, proposal, today, screen)
    screen.line()
    _show_proof(proven.proof, screen)
    if proven.damaged:
        text = f"{count_things(proven.damaged, 'row')} could not be read; see `toolbus check`"
        screen.prose(text, style="bad")
    if proven.left_out:
        screen.line(Span("older calls without a rule", "strong"))
        rows = [(f"{number:,}", reason) for reason, number in proven.left_out.most_common()]
        screen.table(rows, indent=2)
    if proven.removals:
        screen.line(Span("rules to remove by hand", "strong"))
        for each in proven.removals:
            screen.whole(f"{file.file}:{each.line or 1}: {each.text}", indent=2)


def _show_rule(proven: _ProvenRules, proposal: Proposal, today: date, screen: Screen) -> None:
    """Write a rule to add with its evidence."""
    screen.line()
    for line in rule_text(proposal, today):
        screen.whole(line, style="dim" if line.startswith("#") else "")
    share, questions = proven.proof.shares[proposal.rule["name"]], proven.proof.total.before
    text = f"answers {share:,} of {count_things(questions, 'question')}"
    screen.prose(text, indent=2, style="good")
    # An exact rule says itself which call it is about.
    calls = [describe_call(each.call) for each in proposal.evidence if proposal.form == "family"]
    for words, number in Counter(calls).most_common(_MOST_CALLS):
        screen.line(*words, right=[count_things(number, "time")], indent=4)
    if proposal.caution:
        screen.prose(proposal.caution, indent=2, style="asked")


def _show_proof(proof: Proof, screen: Screen) -> None:
    if not proof.total.calls:
        screen.prose("no recorded call comes from a project of this policy")
        return
    denied, allowed = proof.denied or "nothing", proof.allowed or "nothing"
    effect = f"{denied} denied that you allowed; {allowed} allowed that you refused"
    screen.prose(f"{_change(proof.total)}; {effect}", style="good")
    screen.prose(f"older sessions, with the evidence: {_change(proof.older)}", indent=2)
    screen.prose(f"newer sessions: {_change(proof.newer)}", indent=2)
    if proof.hidden:
        hidden = count_things(proof.hidden, "call")
        screen.prose(f"{hidden} with hidden values count as they were", indent=2, style="dim")


def _change(figures: ProofFigures) -> str:
    return f"{count_things(figures.before, 'question')} would have been {figures.after:,}"


def _show_end(settings: SettingsFile, proven: _ProvenRules, screen: Screen) -> None:
    """Write the effect of the added rules, and the configurations without trust from now on."""
    if not proven.taken:
        screen.line("nothing was written")
        return
    added = f"✓ {count_things(len(proven.taken), 'rule')} added to {settings.path}"
    screen.whole(added, style="good")
    _show_proof(proven.proof, screen)
    for file, digests in read_trusted().items():
        if str(settings.real) in digests:
            text = f"{file} names it and is no longer trusted, so hooks stop all calls until:"
            screen.whole(text, style="asked")
            screen.command("toolbus", "trust", file)
