"""Readers of arguments that are a language of their own, by the names that data files use."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from toolbus.policy.programs.languages import cloud_readers, small_readers
from toolbus.policy.programs.languages.awk_programs import read_awk
from toolbus.policy.programs.languages.find_expressions import read_find
from toolbus.policy.programs.languages.sed_scripts import read_sed
from toolbus.policy.programs.languages.sql_statements import read_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toolbus.policy.commands import Word
    from toolbus.policy.programs.parsed_command import ParsedCommand

ArgumentReader: TypeAlias = "Callable[[ParsedCommand], Sequence[Word]]"
"""Adds to `ParsedCommand.uses`; returns the operands that are still to be judged by their kinds."""

READERS: Mapping[str, ArgumentReader] = {
    "auth0-api": cloud_readers.read_auth0_api,
    "awk": read_awk,
    "azure": cloud_readers.read_azure,
    "checkout": small_readers.read_checkout,
    "curl": small_readers.read_curl,
    "docker-exec": cloud_readers.read_docker_exec,
    "dd": small_readers.read_dd,
    "find": read_find,
    "fzf": small_readers.read_fzf,
    "github-api": cloud_readers.read_github_api,
    "kubectl-exec": cloud_readers.read_kubectl_exec,
    "kubectl-get": cloud_readers.read_kubectl_get,
    "pacman": cloud_readers.read_pacman,
    "push": small_readers.read_push,
    "remote-copy": small_readers.read_ssh_target,
    "sed": read_sed,
    "sql": read_sql,
    "tar": small_readers.read_tar,
    "test": small_readers.read_test,
    "yq": small_readers.read_yq,
}
