"""The wall: no room of the core imports a wing, and no wing another one but along an arrow.

A contract of import-linter, for the section `tool.importlinter.contracts` of `pyproject.toml`.
A wing is one line there: its modules below `toolbus`, and after `->` the first module of each wing
that it may import; `*` are all. Modules of no wing are the core. Imports within functions and for
type checkers count as all others.
"""

from fnmatch import fnmatchcase

from importlinter import Contract, ContractCheck, fields, output
from importlinter.application.contract_utils import AlertLevel, remove_ignored_imports

PACKAGE = "toolbus."


class WallContract(Contract):
    """Forbids direct imports through the wall, but for those of `ignore_imports`."""

    type_name = "wall"

    wings = fields.ListField(subfield=fields.StringField())
    ignore_imports = fields.SetField(subfield=fields.ImportExpressionField(), required=False)

    def check(self, graph, verbose):
        """Return whether *graph* keeps the contract, with the imports that do not."""
        warnings = remove_ignored_imports(
            graph=graph,
            ignore_imports=self.ignore_imports,
            unmatched_alerting=AlertLevel.ERROR,  # An exception that is over goes from the list.
        )
        arrows, wing_of = read_wings(self.wings, graph.modules)
        crossings = [
            f"{importer} -> {imported}"
            for importer in sorted(graph.modules)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if not is_open(arrows, wing_of.get(importer, ""), wing_of.get(imported, ""))
        ]
        return ContractCheck(
            kept=not crossings, warnings=warnings, metadata={"crossings": crossings}
        )

    def render_broken_contract(self, check):
        """Print the imports that break the contract."""
        for crossing in check.metadata["crossings"]:
            output.print_error(f"- {crossing}")


def read_wings(lines, modules):
    """Return the arrows of each wing, and the wing of each of *modules* that is in one."""
    arrows, wing_of = {}, {}
    for line in lines:
        inside, _, to = line.partition("->")
        names = inside.split()
        arrows[names[0]] = to.split()
        for name in names:
            found = [each for each in modules if is_within(each, PACKAGE + name)]
            if not found:
                raise ValueError(f"no module {PACKAGE}{name}, in the wing of {names[0]!r}")
            wing_of.update(dict.fromkeys(found, names[0]))
    return arrows, wing_of


def is_within(module, package):
    """Return whether *module* is *package* or below it."""
    return module == package or module.startswith(f"{package}.")


def is_open(arrows, wing, imported):
    """Return whether *wing* may import the wing *imported*; "" is the core."""
    return imported in {"", wing} or any(fnmatchcase(imported, to) for to in arrows.get(wing, ()))
