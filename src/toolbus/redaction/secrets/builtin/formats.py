"""Formats by which a credential is known wherever it stands, and that the published set leaves out.

Each shape is from the source in `specs/credential_formats.toml`. To add one: its rule here, its
source there, an example in `benchmarks/redaction/examples.toml`, and then `python -m
benchmarks.redaction.update_rules`, which writes the keywords of all rules.

Behind them are secrets as programs store them, and those of the web: signed links, hooks, headers
and cookies.
"""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.grammar import BEFORE, BuiltinRule, after

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


_LINES = r"((?:[ \t]*[A-Za-z0-9+/=]{1,80}(?:\r?\n|\\n|$))+)"
_JWK_PRIVATE = r'"[dk]"\s*:\s*"([\w-]{16,})"'
# What ends a hash, of which the last sign may be a dot.
_END = r"(?:[^\w./+=$]|$)"

_SALT, _BASE64 = r"[./A-Za-z0-9]{1,16}", "[A-Za-z0-9+/]"

STORED_SECRETS = (
    # PuTTY's format of keys, appendix C of its manual.
    BuiltinRule("putty-private-key", rf"Private-Lines: ?\d+(?:\r?\n|\\n){_LINES}"),
    BuiltinRule("putty-private-key", r"Private-(?:MAC|Hash): ?([0-9a-f]{40,64})"),
    # RFC 7517 and 7518: d is a private key, k a symmetric one, the others parts of one of RSA.
    BuiltinRule("jwk-private-key", rf'"kty"[^{{}}]*?{_JWK_PRIVATE}'),
    BuiltinRule("jwk-private-key", rf'{_JWK_PRIVATE}[^{{}}]*?"kty"'),
    BuiltinRule("jwk-private-key", r'"(?:p|q|dp|dq|qi)"\s*:\s*"([\w-]{80,})"'),
    # Secrets that Jenkins has encrypted begin with their version and length.
    BuiltinRule("jenkins-secret", r"\{(AQAAABAAAA[A-Za-z0-9+/]{20,}={0,2})\}"),
    BuiltinRule(
        "ansible-vault", r"\$ANSIBLE_VAULT;[\d.]+;AES\d*(?:;[\w-]+)?\s*((?:[0-9a-f]{16,}\s*)+)"
    ),
    # What Terraform's state keeps of a password that it made.
    BuiltinRule(
        "terraform-random-password",
        r'"random_password"[^\[\]]*?(?:\[[^\[\]]*?)?"result"\s*:\s*"((?:[^"\\]|\\.)+)"',
    ),
    # An account of Twilio and its token.
    BuiltinRule(
        "twilio-auth-token", r"\bAC[0-9a-f]{32}[\"']?\s*[,:;]\s*[\"']?([0-9a-f]{32})(?:[^\w]|$)"
    ),
    # crypt(5), and those of Apache, PHP and Argon2 in the same form: the sign says which one.
    BuiltinRule("password-hash", rf"\$2[abxy]?\$\d\d\$([./A-Za-z0-9]{{53}}){_END}"),
    BuiltinRule("password-hash", rf"\$(?:1|apr1)\$({_SALT}\$[./A-Za-z0-9]{{22}}){_END}"),
    BuiltinRule(
        "password-hash", rf"\$[56]\$(?:rounds=\d+\$)?({_SALT}\$[./A-Za-z0-9]{{43,86}}){_END}"
    ),
    BuiltinRule(
        "password-hash", rf"\$(?:g?y|7)\$[./\w]+\$([./A-Za-z0-9]*\$[./A-Za-z0-9]{{43}}){_END}"
    ),
    BuiltinRule(
        "password-hash",
        rf"\$argon2(?:id|i|d)\$v=\d+\$m=\d+,t=\d+,p=\d+\$({_BASE64}+\$[A-Za-z0-9+/]{{20,}}){_END}",
    ),
    BuiltinRule("password-hash", rf"\$[PH]\$([./A-Za-z0-9]{{31}}){_END}"),
    # RFC 2307, section 5.3.
    BuiltinRule(
        "password-hash",
        r"(?i)\{(?:s?sha(?:256|384|512)?|s?md5|crypt|pbkdf2[\w-]*)\}([A-Za-z0-9+/$.]{20,}={0,2})",
    ),
    # Django and Werkzeug.
    BuiltinRule(
        "password-hash",
        r"\b(?:pbkdf2_sha(?:1|256)|bcrypt_sha256|scrypt)\$([\w$=,.+/]+\$[A-Za-z0-9+/=$.,]{20,})",
    ),
    BuiltinRule(
        "password-hash",
        r"\b(?:pbkdf2:sha\d+:\d+|scrypt:\d+:\d+:\d+)\$(\w{4,32}\$[0-9a-f]{40,128})\b",
    ),
    # PostgreSQL's, MySQL's, and the pair of Windows.
    BuiltinRule(
        "password-hash",
        rf"SCRAM-SHA-256\$\d+:({_BASE64}{{16,}}={{0,2}}\${_BASE64}{{40,}}=?:{_BASE64}{{40,}}=?)",
    ),
    BuiltinRule("password-hash", r"['\"|](md5[0-9a-f]{32}|\*[0-9A-F]{40})['\"|]"),
    BuiltinRule("password-hash", r":\d+:([0-9a-fA-F]{32}:[0-9a-fA-F]{32}):::"),
)


# What frameworks call the cookie of a session, and those that keep others out of one.
_SESSION = (
    r"(?:[\w.-]*(?:sess(?:ion)?[_.-]?(?:id|key|token)?|sid|auth\w*|token|csrf\w*|xsrf\w*|jwt"
    r"|remember\w*|login\w*|identity\w*|ticket|secret)(?:[.-][\w.-]*|_[0-9a-z]+)?"
    r"|(?:[\w.-]*[_.-])?sso\w*)"
)
# A `…_token` is found by its name, which may be that of a page.
_LINKED = (
    r"(?:[\w.-]*(?:jwt|ticket|otp|nonce|(?:invite|invitation|confirm|confirmation|verification|magic"
    r"|reset)(?:[_-]?token)?|passcode|secret|password|passwd|pwd|api[_-]?key|access_key|auth_key)"
    r"|code|key|auth|oobcode|sid|session|session_?id|pass)"
)
_VALUE = r"(?P<value>[\w%+/=.~-]+)"


def _assumed(name: str, pattern: str, kind: str = "secret") -> BuiltinRule:
    return BuiltinRule(name, pattern, loose=True, kind=kind)


WEB = (
    # Signatures of links: Amazon, Google, Alibaba, Tencent, CloudFront; Azure's storage and flows.
    _assumed(
        "signed-link",
        r"(?i)(?:[?&;]|%3f|%26|\\u0026)(?:amp;)?(?:x-amz-signature|x-amz-security-token"
        rf"|x-goog-signature|x-oss-signature|q-signature|signature|sig|hmac)(?:=|%3d){_VALUE}",
    ),
    # Links by which whoever has them is let in.
    _assumed("link-token", rf"(?i)[?&;#](?:amp;)?{_LINKED}={_VALUE}", "key"),
    _assumed(
        "link-token",
        r"(?i)/(?:[\w-]*(?:reset|verify|confirm|activate|magic|invite|invitation|unsubscribe"
        r"|activation|verification|confirmation|password|token)[\w-]*)/(?:[\w-]+/)?"
        r"(?P<value>[\w.~-]+)(?:[\s\"'\x60<>)\]?#,;/]|$)",
        "key",
    ),
    # Addresses at which anybody can post.
    BuiltinRule(
        "discord-webhook", r"(?i)\bdiscord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+/([\w-]{40,})"
    ),
    BuiltinRule("zapier-webhook", r"(?i)\bhooks\.zapier\.com/hooks/catch/(\d+/\w{5,})"),
    BuiltinRule(
        "ifttt-webhook",
        r"(?i)\bmaker\.ifttt\.com/trigger/[^\s/]+/(?:json/)?with/key/([\w-]{15,})",
    ),
    BuiltinRule(
        "google-chat-webhook",
        r"\bchat\.googleapis\.com/v1/spaces/[\w-]+/messages\?(key=[\w-]+&(?:amp;)?token=[\w%-]+)",
    ),
    # RFC 6265, sections 4.1 and 4.2.
    _assumed(
        "session-cookie",
        r"(?i)(?:\bcookies?[\"']?[ \t]*[:=,][ \t]*[\"'{]?|;[ \t]*|--cookie[ \t]+[\"']?"
        rf"|-b[ \t]+[\"']?){_SESSION}=(?P<value>[^\s;,\"'\x60(){{}}\[\]]+)(?:[\s;,\"'\x60\\]|$)",
    ),
    # Cookies as browsers record and export them: HAR 1.2.
    _assumed(
        "session-cookie",
        rf"(?i)\"name\"\s*:\s*\"{_SESSION}\"\s*,\s*\"value\"\s*:\s*\"(?P<value>[^\"\s\\]+)\"",
    ),
    # A key below the name of what it signs, as in ASP.NET's `appsettings.json`.
    _assumed(
        "assigned-secret",
        r"(?i)\"jwt\w*\"\s*:\s*\{[^{}]*?\"key\"\s*:\s*\"(?P<value>[^\"\s\\]+)\"",
    ),
    # RFC 7616, section 3.4: what answers a challenge.
    _assumed("digest-response", r"(?i)\bdigest\s[^\n]*?\bresponse=\"(?P<value>[0-9a-f]+)\""),
    # Without a scheme, as some interfaces want it.
    _assumed(
        "authorization-header",
        r"(?i)\bauthorization[\"']?[ \t]*[:=,][ \t]*[\"'\x60]?(?P<value>[\w.~+/=:-]+)"
        r"(?:[\s\"'\x60,}]|$)",
        "key",
    ),
)
