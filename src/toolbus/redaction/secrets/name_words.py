"""The words of names, by which `names` tells secrets from what is about them."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PASSWORDS = _words(
    """
    password passwd passw passwrd pwd pw pass passphrase passcode psk userpass passwort kennwort
    contrasena senha motdepasse mdp parola wachtwoord haslo sifre losenord adgangskode passord
    salasana heslo jelszo katasandi пароль 密码 密碼 口令 パスワード 暗証番号 비밀번호 암호
    पासवर्ड পাসওয়ার্ড پاسورڈ passe clave sandi khau
    κωδικος סיסמה รหัสผ่าน المرور السر
    """
)
"""What a password is called in the languages that most people write, without accents."""

SECRETS = _words(
    """
    secret token credential cred creds credentials salt pepper auth pat bearer jwt geheimnis
    секрет токен 令牌 密钥 密鑰
    """
)
"""What else is secret by its name alone."""

SECRET_KEYS = _words(
    "api secret access private auth master account shared signing encryption service license app"
)
"""What stands before `key` where it opens something."""

GLUED = _words(
    """
    password passwd passphrase passwort kennwort pwd secret token dbpass mysqlpass pgpass
    postgrespass redispass rootpass adminpass userpass smtppass mailpass ftppass requirepass
    masterpass mypass proxypass ldappass sqlpass mongopass rabbitpass sshpass sudopass wifipass
    keypass storepass authpass
    """
) | {f"{word}key" for word in SECRET_KEYS}
"""What one word may end in, to be two words in truth."""

NEUTRAL = _words(
    """
    old new current previous prev next confirm confirmation confirmed again repeat repeated
    retype verify value val plain plaintext raw str string base b64 base64 encoded data default
    prod production dev development stage staging test testing qa uat live sandbox main primary
    secondary local backup ro rw admin root v
    """
)
"""What may follow the name of a secret, which is one nevertheless."""

ATTRIBUTES = _words(
    """
    id ids uuid guid name names arn url urls uri uris link href host hostname domain endpoint
    server address addr port path paths file files filename filepath dir directory folder
    location type types kind class format mode scheme algorithm alg algo cipher method style at
    time date timestamp created updated modified expires expired expiry expiration expire age
    ttl lifetime duration timeout interval days hours minutes seconds ms since until count
    counts length len size limit max min num number index idx position offset total usage used
    bytes bits chars strength score policy rule rules regex pattern template schema version
    versions revision hash hashes hashed checksum digest fingerprint thumbprint sum sha md sha1
    sha256 sha512 md5 ref refs reference alias label title description desc hint help message
    msg text prompt placeholder field fields column param parameter parameters attribute attr
    property prop input form header headers prefix suffix separator delimiter env envvar var
    variable status state enabled disabled required valid invalid validity verified set exists
    present reset forgot change changed rotate rotation rotated generator generate factory
    provider manager service store storage source issuer audience scope scopes realm grant
    permission permissions role roles owner user username email account project region zone
    namespace group list map dict table cache handler callback event error errors exception
    warning code validator validation checker check encoder decoder parser reader writer yaml
    yml json toml xml txt md py js ts go rs rb sh ini cfg conf properties
    """
)
"""What makes a name say something about a secret, and not the secret."""

CHECKSUMS = frozenset({"checksum", "checksums"})
"""What makes a digest of all that follows, as in `checksum/secret`."""

HARMLESS_TOKENS = _words(
    """
    max min num number n total prompt completion input output reasoning cached used remaining
    pad eos bos unk mask cls sep special added stop start end next prev previous page pagination
    paging starting client update lock opaquelock sequence resume work unit request change action
    idempotency continuation continue sync cancellation cancel lexer public skip delta bookmark
    checkpoint watermark partition task progress confirm confirmation consistency
    design css theme color
    """
)
"""What stands before `token` where it opens nothing: of a text, of a page, of one request.

Tools return many of them for the next call, which fails without.
"""

SWITCHES = _words("has have is are no with without show hide forgot need needs allow ask enter")
"""What makes a question or a switch of the name of a secret."""

HARMLESS_KEYS = _words(
    """
    restore verification verify verifying
    recv gpg pgp primary foreign cache object routing partition sort idempotency idempotent public
    pub publishable map dict hash lookup index unique composite natural surrogate group range s3
    site anon message event row column record config setting translation i18n locale lang
    resource file document doc asset media image snapshot dedup deduplication incident change
    entity artifact component thread order space section
    registry hot short arrow function modifier enter escape shift ctrl alt meta tab host known
    on off is has parent child
    """
)
"""What stands before `key` where it opens nothing."""
