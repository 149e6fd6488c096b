"""Secrets of the web: signed links, hooks, headers and cookies."""

from __future__ import annotations

from toolbus.redaction.secrets.builtin.grammar import BuiltinRule

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
