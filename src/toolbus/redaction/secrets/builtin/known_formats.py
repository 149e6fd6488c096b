"""Formats by which a credential is known wherever it stands, and that the published set leaves out.

Each shape is from the source in `specs/credential_formats.toml`. To add one: its rule here, its
source there, an example in `benchmarks/redaction/examples.toml`, and then `python -m
benchmarks.redaction.update_rules`, which writes the keywords of all rules.
"""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.grammar import BuiltinRule
from toolbus.redaction.secrets.edges import BEFORE, after

_Q = r"""["'\x60]"""
_IS = r"""["'\x60)\]]{0,2}[ \t]{0,8}(?:=>|:=|\|\||=|:|,)\s{0,8}["'\x60(]{0,2}"""
# RFC 9110, section 11.6.2: a scheme and credentials.
_AUTHORIZATION = (
    rf"(?i)\bauthorization{_Q}?[ \t]{{0,4}}[:=,][ \t]{{0,4}}{_Q}?"
    r"[a-z][a-z0-9-]{2,15}[ \t]{1,4}([\w.~+/-]{8,}=*)"
)

_VENDORS = (
    r"sbp_v0|nfp|fo1|lin_oauth|sntrys|re|rnd|jina|e2b|bb_live|testsk|alcht|pnb|sq[apu]|cal_live|cfk"
    r"|ory_[a-z]{2,3}|bk[a-z]{2}|rp[as]|ek|dd(?:app|pat)|dtn|hc[a-z]ik|ggshield|tr_(?:prod|stg|dev)"
    r"|fm2|vapi|ptr|bws|hcp|gto|lk|unkey|fe_oa|phx|r8|odt|pk_[0-9]{5,12}"
)
"""Prefixes of keys: Supabase, Netlify, Fly, Linear, Sentry, Resend, Render and others."""


def _token(name: str, pattern: str, signs: str = "") -> BuiltinRule:
    """Return a rule for a token of letters, digits and *signs*, wherever it stands."""
    return BuiltinRule(name, f"{BEFORE}({pattern}){after(signs)}")


KNOWN_FORMATS = (
    _token("google-oauth-client-secret", r"GOCSPX-[\w-]{28}", "_-"),
    _token("google-oauth-access-token", r"ya29\.[\w-]{20,1000}", "_-"),
    _token("github-refresh-token", r"ghr_[A-Za-z0-9]{36,76}"),
    _token("pypi-upload-token", r"pypi-AgEN[\w-]{50,1000}", "_-"),
    _token("crates-io-api-key", r"cio[A-Za-z0-9]{32}"),
    _token("doppler-api-token", r"dp\.(?:ct|st|sa|scim|audit)\.(?:[\w-]{2,35}\.)?\w{40,44}"),
    _token("discord-bot-token", r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38}", "_-"),
    _token("square-access-token", r"sq0(?:atp-[\w-]{22}|csp-[\w-]{43})", "_-"),
    _token("elevenlabs-api-key", r"sk_[0-9a-f]{48}"),
    _token("new-relic-user-api-key", r"NR(?:AK-[A-Z0-9]{27}|II-[\w-]{32})", "_-"),
    _token("notion-api-token", r"secret_[A-Za-z0-9]{43}"),
    _token("mapbox-secret-token", r"sk\.eyJ[\w-]{20,200}\.[\w-]{20,30}", "_-"),
    BuiltinRule(
        "telegram-bot-api-token", rf"(?:{BEFORE}|bot)(\d{{6,12}}:A[\w-]{{34}}){after('_-')}"
    ),
    _token("nuget-api-key", r"oy2[a-z0-9]{43}"),
    _token("stripe-webhook-secret", r"whsec_[A-Za-z0-9+/]{32,64}", "+/"),
    BuiltinRule(
        "microsoft-teams-webhook",
        r"\boutlook\.office\.com/webhook/([0-9a-f-]{36}@[\w/-]{60,200})",
    ),
    BuiltinRule(
        "okta-access-token",
        rf"(?i)(?:okta|ssws)[^\n]{{0,40}}\s[^\n]{{0,16}}?{_Q}?\b(00[\w-]{{40}})(?:[^\w-]|$)",
        loose=True,
    ),
    _token("azure-devops-pat", r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}"),
    _token("braintree-access-token", r"access_token\$\w{4,12}\$[a-z0-9]{16}\$[0-9a-f]{32}"),
    _token("tailscale-key", r"tskey-[a-z]{2,12}-\w{4,32}-\w{4,64}"),
    _token("contentful-management-token", r"CFPAT-[\w-]{43,64}", "_-"),
    _token("dropbox-short-lived-api-token", r"sl\.[\w-]{130,1000}", "_-"),
    BuiltinRule(
        "pagerduty-api-key",
        rf"(?i)(?:pagerduty|pager_duty|\bpd)[\w.-]{{0,16}}{_IS}(u\+[\w+-]{{18}})",
    ),
    BuiltinRule("authorization-header", _AUTHORIZATION, kind="password"),
    # GitHub's shape, where the prefix itself says key or token, or is one that a vendor gives keys.
    # Other prefixes are of ids: `resp_…`, `batch_…`, `chunk_…`.
    BuiltinRule(
        "prefixed-token",
        r"\b((?:[a-z][a-z0-9]{1,9}_){0,2}"
        r"(?:sk|rk|pat|tkn|token|secret|api|apikey|key_(?:live|prod|test))_(?:[a-z0-9]{2,8}_)?"
        r"[A-Za-z0-9]{30,128})\b",
        loose=True,
    ),
    BuiltinRule("prefixed-token", rf"\b((?:{_VENDORS})_[A-Za-z0-9]{{30,128}})\b", loose=True),
    # WooCommerce, Lob, Mollie, GoCardless, Cursor.
    BuiltinRule(
        "prefixed-token",
        r"\b((?:c[ks]_[0-9a-f]{40}|(?:live|test)_(?:[0-9a-f]{35}|[A-Za-z0-9]{30})"
        r"|(?:live|sandbox)_\w{40}|(?:key|crsr)_[0-9a-f]{64}))\b",
        loose=True,
    ),
    # A number that names an account, and a key of it: that alone is judged.
    BuiltinRule(
        "numbered-token",
        r"\b(?:\d/)?(?:\d{8,20}/)?\d{8,20}:(?P<value>[\w-]{32,64})(?:[^\w-]|$)",
        loose=True,
    ),
)
