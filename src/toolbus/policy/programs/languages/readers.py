"""Readers of arguments that are a language of their own, by the names that data files use."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from toolbus.policy.programs.languages import (
    remote_readers,
    shell_readers,
    small_readers,
)
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
    "alias": shell_readers.read_alias,
    "auth0-api": remote_readers.read_auth0_api,
    "awk": read_awk,
    "azure": remote_readers.read_azure,
    "checkout": remote_readers.read_checkout,
    "cp": small_readers.read_cp,
    "curl": remote_readers.read_curl,
    "date": small_readers.read_date,
    "dd": small_readers.read_dd,
    "docker-exec": remote_readers.read_docker_exec,
    "dscl": small_readers.read_dscl,
    "env": shell_readers.read_env,
    "export": shell_readers.read_export,
    "find": read_find,
    "flock": shell_readers.read_flock,
    "fzf": small_readers.read_fzf,
    "git-diff": remote_readers.read_diff,
    "github-api": remote_readers.read_github_api,
    "gzip": small_readers.read_gzip,
    "interpreter": shell_readers.read_interpreter,
    "kubectl-exec": remote_readers.read_kubectl_exec,
    "kubectl-get": remote_readers.read_kubectl_get,
    "jq": small_readers.read_jq,
    "less": small_readers.read_less,
    "lsof": small_readers.read_lsof,
    "make": shell_readers.read_make,
    "openssl": remote_readers.read_openssl,
    "pacman": remote_readers.read_pacman,
    "push": remote_readers.read_push,
    "remote-copy": remote_readers.read_ssh_target,
    "response-files": small_readers.read_response_files,
    "restore": remote_readers.read_restore,
    "rpm": remote_readers.read_rpm,
    "script": shell_readers.read_script,
    "set": shell_readers.read_set,
    "ps": small_readers.read_ps,
    "scutil": small_readers.read_scutil,
    "sed": read_sed,
    "service": small_readers.read_service,
    "shell": shell_readers.read_shell,
    "sql": read_sql,
    "sysctl": small_readers.read_sysctl,
    "tar": small_readers.read_tar,
    "tsc": remote_readers.read_tsc,
    "test": shell_readers.read_test,
    "wget": remote_readers.read_wget,
    "yq": small_readers.read_yq,
}
