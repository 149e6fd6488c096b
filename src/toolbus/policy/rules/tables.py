"""The schema of a policy file: the keys and values of each table, for the reader and for editors.

A `[[rule]]`, and the conditions of a `[[call]]`:

| key | matches |
|---|---|
| `name`, `verdict` | required in a rule; `verdict` is "allow", "ask", "deny" or "audit" |
| `tools` | names of tools, as globs |
| `annotations`, `arguments`, `context` | values by path: see `toolbus.policy.rules.values` |
| `agent`, `lineage` | the id of the calling agent, or of an agent above it, as globs |
| `when` | an expression in CEL is true: see `toolbus.policy.rules.expressions` |
| `command` | commands: see `toolbus.policy.rules.command_patterns` |
| `exactly` | in an allow rule: these very calls: see `toolbus.policy.rules.exact_calls` |
| `effects` | any of read, write, network, destroy, run-code, message |
| `reads`, `writes`, `touches` | files read, changed, or either, as in a `.gitignore` |
| `outside` | a change of any file outside these patterns; not in an allow rule |
| `hosts` | hosts, as globs: see `toolbus.policy.paths.hosts` |
| `pushes` | branches that `git push` changes, as globs, in any form of the command |
| `sink`, `new_host` | words that leave, are run or destroy; to a host that nobody named |
| `in_view`, `from`, `target_from`, `carries` | where words came from: `rules.flow_conditions` |
| `prompt` | in an allow rule: "skip" answers a coding agent's own prompt for reading calls |
| `reason`, `hint` | texts for the model: the reason, and an alternative |

The keys of a rule about earlier calls:

| key of a rule | broken by |
|---|---|
| `at_most = { calls = 20, seconds = 300 }` | the 21st matching call in five minutes |
| `at_most = { calls = 50, per = "run" }` | the 51st call of a run; without `per`, of the session |
| `at_most = { bytes = 1000000 }` | a call after results of that many bytes |
| `at_most = { tool_seconds = 600 }` | a call after that much time in tools |
| `at_most = { total = 500, of = "amount" }` | a call whose argument raises the sum above it |
| `only_after = "tests-passed"` | a call before that `[[call]]` has happened |
| `never_after = "secret-read"` | a call after it happened, may have, or while it runs |
| `repeats = 3` | the third repetition of a call, or of a sequence of up to four calls |

A deny, ask or audit rule matches a call that breaks a limit; an allow rule matches a call that
breaks none. Approved, asked and started calls count; denied calls do not.

```toml
[[call]]                        # a call that rules can name
name = "tests-passed"
command = "pytest"              # conditions as in a rule
outcome = "success"             # or "error"; { status = "success", text = { pattern = "passed" } }
```

A shell line certainly is such a call only if it is that command alone, apart from an initial `cd`:
`pytest || true` hides how the tests ended. Without `outcome`, `only_after` waits for a success, and
`never_after` counts any end.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

Verdict: TypeAlias = Literal["allow", "ask", "deny", "audit"]
Default: TypeAlias = Literal["allow", "ask", "deny"]
Effect: TypeAlias = Annotated[
    Literal["read", "write", "network", "destroy", "run-code", "message"], Meta(title="effect")
]
"""The possible effects of a part of a call; every known part at least reads.

A message, such as a mail, a comment or a payment, reaches other people through the network.
"""
Sink: TypeAlias = Annotated[Literal["network", "message", "execute", "destroy"], Meta(title="sink")]
"""The uses of words that matter: they leave, reach people, are run, or say what is destroyed."""
_Kind: TypeAlias = Literal["secret", "card", "iban", "private", "email", "phone", "national-id"]
ValueKind: TypeAlias = Annotated[_Kind, Meta(title="kind of value")]
LabelName: TypeAlias = Annotated[Literal["untrusted", "unknown", _Kind], Meta(title="label")]
"""The labels of texts: an unknown text is untrusted, too; further ones say what a text holds."""
Ending: TypeAlias = Annotated[Literal["success", "error"], Meta(title="outcome")]
Text: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
_List: TypeAlias = Annotated[tuple[Text, ...], Meta(min_length=1)]
Texts: TypeAlias = Annotated[Text | _List, Meta(description="a text, or a list of texts")]
Names: TypeAlias = Annotated[
    Text | _List, Meta(description="the name of a [[call]], or a list of them")
]
_EXACT = "a command, a list of commands, or a table of all arguments"
Exactly: TypeAlias = Annotated[Text | _List | dict[str, Any], Meta(description=_EXACT)]
Effects: TypeAlias = Effect | Annotated[tuple[Effect, ...], Meta(min_length=1)]
Labels: TypeAlias = LabelName | Annotated[tuple[LabelName, ...], Meta(min_length=1)]
_ORIGINS = 'a label such as "untrusted", or a table of labels by globs of arguments'
Origins: TypeAlias = (
    LabelName | Annotated[dict[str, LabelName], Meta(min_length=1, description=_ORIGINS)]
)
Amount: TypeAlias = Annotated[float, Meta(ge=0, le=1e300, description="a number above 0")]


class ValueTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Tests of one value; all must pass."""

    equals: Any | UnsetType = UNSET
    one_of: Annotated[tuple[Any, ...], Meta(min_length=1)] | UnsetType = UNSET
    glob: str | UnsetType = UNSET
    pattern: str | UnsetType = UNSET
    min: int | float | UnsetType = UNSET
    max: int | float | UnsetType = UNSET


Value: TypeAlias = (
    Annotated[ValueTable, Meta(title="test")]
    | Annotated[tuple[Any, ...], Meta(min_length=1)]
    | str
    | int
    | float
    | bool
    | None
)
Values: TypeAlias = Annotated[
    dict[str, Value], Meta(min_length=1, description="a table of values by their paths")
]


class ConditionTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions of a rule or a named call."""

    tools: Texts | None = None
    agent: Texts | None = None
    lineage: Texts | None = None
    annotations: Values | None = None
    context: Values | None = None
    arguments: Values | None = None
    when: str | None = None
    command: Texts | None = None
    exactly: Exactly | None = None
    effects: Effects | None = None
    reads: Texts | None = None
    writes: Texts | None = None
    touches: Texts | None = None
    outside: Texts | None = None
    hosts: Texts | None = None
    pushes: Texts | None = None
    sink: Sink | Annotated[tuple[Sink, ...], Meta(min_length=1)] | None = None
    in_view: Labels | None = None
    new_host: bool | None = None
    target_from: LabelName | None = None
    from_: Origins | None = field(default=None, name="from")
    carries: ValueKind | Annotated[tuple[ValueKind, ...], Meta(min_length=1)] | None = None

    def keys(self) -> list[str]:
        """Return the keys that the table has."""
        pairs = zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True)
        return [key for key, name in pairs if getattr(self, name) is not None]

    def value(self, key: str) -> Any:
        """Return the value of *key*, None if absent."""
        return getattr(self, f"{key}_" if key == "from" else key)


class QuotaTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The maximum of a measure, in the last *seconds* or in the whole session or run."""

    calls: Amount | None = None
    bytes: Amount | None = None
    tool_seconds: Amount | None = None
    total: Amount | None = None
    of: str | None = None
    seconds: Annotated[float, Meta(gt=0, le=1e300, description="a number above 0")] | None = None
    per: Annotated[Literal["session", "run"], Meta(description='"session" or "run"')] = "session"


class RuleTable(ConditionTable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `[[rule]]`."""

    name: Annotated[str, Meta(pattern=r"\S", description="a name")]
    verdict: Verdict
    reason: str | None = None
    hint: str | None = None
    prompt: Literal["skip"] | None = None
    at_most: (
        Annotated[QuotaTable, Meta(description="a table such as { calls = 20, seconds = 300 }")]
        | None
    ) = None
    only_after: Names | None = None
    never_after: Names | None = None
    repeats: Annotated[int, Meta(ge=2, le=16, description="a number from 2 to 16")] | None = None


class OutcomeTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The required end of a named call."""

    status: Ending | None = None
    text: Value | UnsetType = UNSET


class CallTable(ConditionTable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `[[call]]` for limits of rules to name."""

    name: Annotated[str, Meta(pattern=r"\S", description="a name")]
    outcome: Ending | OutcomeTable | None = None


class ToolFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts about a tool: `[tools."NAME"]`, where NAME may be a glob pattern.

    *command*, *folder_argument*, *reads*, *writes*, *trees*, *urls*, *recipients* and *ignore* are
    paths of arguments; *folder* is the base of its relative paths. Without *effects* a tool is
    unknown, unless it is a shell. A tool that *keeps_folder* starts in the folder where its last
    call ended. Anyone may read the messages of a *public* tool, such as comments on issues.
    """

    command: str | None = None
    folder: Annotated[str, Meta(min_length=1, description="the path of a folder")] | None = None
    folder_argument: str | None = None
    keeps_folder: bool = False
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None
    trees: tuple[str, ...] | None = None
    urls: tuple[str, ...] | None = None
    recipients: tuple[str, ...] | None = None
    public: bool = False
    effects: tuple[Effect, ...] | None = None
    ignore: tuple[str, ...] = ()


NO_TOOL_FACTS = ToolFacts()


class PolicyTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole policy file."""

    default: Default = "ask"
    project: Literal["file", "session"] | UnsetType = UNSET
    folder: Annotated[str, Meta(min_length=1, description="the path of a folder")] | None = None
    programs: Annotated[
        tuple[str, ...], Meta(description="an array of files of programs and their effects")
    ] = ()
    coding_agents: Annotated[bool, Meta(description="true or false")] = False
    trust_annotations: Annotated[
        tuple[str, ...], Meta(description="names of tools whose annotations are trusted")
    ] = ()
    tools: Annotated[
        dict[str, Annotated[ToolFacts, Meta(description="a table")]],
        Meta(description="a table of tools, [tools.NAME]"),
    ] = {}
    call: Annotated[
        tuple[Annotated[CallTable, Meta(description="a table")], ...],
        Meta(description="an array of tables, [[call]]"),
    ] = ()
    rule: Annotated[
        tuple[Annotated[RuleTable, Meta(description="a table")], ...],
        Meta(description="an array of tables, [[rule]]"),
    ] = ()


def texts(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Return a key's texts: the text itself, the list, or nothing for an absent key."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value
