"""Passwords on command lines."""

import pytest
from tests.unit.redaction.secrets.builtin.shapes import cleaned, surviving

SHAPES = {
    "mysql": ("cpx", "mysql -h db -u root -p«» shop"),
    "mysql, quotes": ("cpsx", "mysql -u root -p'«»' shop"),
    "mysqldump": ("cpx", "mysqldump --single-transaction -u root -p«» shop > dump.sql"),
    "mysql, long": ("cpx", "mysql -u root --password=«» shop"),
    "mariadb in a container": ("cpx", "docker exec db mariadb -uroot -p«» -e 'select 1'"),
    "redis-cli": ("cpxu", "redis-cli -h cache -a «» ping"),
    "redis-cli, --pass": ("cpx", "redis-cli --pass «» ping"),
    "sshpass": ("cpx", "sshpass -p «» ssh root@10.0.0.1"),
    "sshpass, quotes": ("cpsx", "sshpass -p '«»' scp a b:"),
    "sshpass, no blank": ("cpx", "sshpass -p«» ssh root@10.0.0.1"),
    "curl": ("cpsx", 'curl -u "admin:«»" https://x.example.com'),
    "curl, single quotes": ("cpsx", "curl -u 'admin:«»' https://x.example.com"),
    "curl, bare": ("cpx", "curl -s -u admin:«» https://x.example.com"),
    "curl, long": ("cpx", "curl --user admin:«» https://x.example.com"),
    "curl, header": ("pxu", "curl -H 'X-Api-Key: «»' https://x.example.com"),
    "curl, header in double quotes": ("pxu", 'curl -H "X-Auth-Token: «»" https://x.example.com'),
    "curl, data": ("cpsx", """curl -d '{"user": "a", "password": "«»"}' https://x.example.com"""),
    "curl, form": ("cpx", "curl -d 'user=a&password=«»' https://x.example.com"),
    "httpie": ("cpx", "http -a admin:«» GET https://x.example.com"),
    "wget": ("cpx", "wget --user=a --password=«» https://x.example.com"),
    "docker login": ("cpx", "docker login -u ci -p «» registry.example.com"),
    "docker login, long": ("cpx", "docker login --username ci --password «» registry.example.com"),
    "podman login": ("cpx", "podman login -u=ci -p=«» quay.example.com"),
    "docker login, piped": ("cpx", "echo «» | docker login -u ci --password-stdin"),
    "docker login, piped in quotes": ("cpsx", 'echo "«»" | docker login -u ci --password-stdin'),
    "skopeo": ("cpx", "skopeo copy --src-creds ci:«» docker://a docker://b"),
    "ldapsearch": ("cpx", "ldapsearch -x -D cn=admin,dc=x -w «» -b dc=x"),
    "ldappasswd": ("cpx", "ldappasswd -D cn=admin,dc=x -W -s «» uid=a"),
    "openssl": ("cpx", "openssl rsa -in a.pem -passin pass:«» -out b.pem"),
    "openssl, quotes": ("cpsx", "openssl enc -aes-256-cbc -in a -k '«»'"),
    "net use": ("cpx", r"net use Z: \\srv\share «» /user:corp\jdoe"),
    "net use, user first": ("cpx", r"net use Z: \\srv\share /user:corp\jdoe «»"),
    "net user": ("cpx", "net user jdoe «» /add"),
    "psql": ("cpx", 'psql "host=db user=a password=«»"'),
    "aws": ("px", "aws configure set aws_secret_access_key «» --profile x"),
    "kubectl": ("cpx", "kubectl create secret generic db --from-literal=password=«»"),
    "kubectl, registry": ("cpx", "kubectl create secret docker-registry r --docker-password=«»"),
    "helm": ("cpx", "helm install a b --set db.user=x,db.password=«»,x=y"),
    "htpasswd": ("cpx", "htpasswd -b /etc/nginx/.htpasswd admin «»"),
    "htpasswd, to stdout": ("cpx", "htpasswd -nbB admin «»"),
    "zip": ("cpx", "zip -r -P «» a.zip b"),
    "unzip": ("cpx", "unzip -P «» a.zip"),
    "7z": ("cpx", "7z a -p«» a.7z b"),
    "export": ("cpsx", "export DB_PASSWORD='«»'"),
    "powershell": ("cpsx", "$env:DB_PASSWORD = '«»'"),
    "securestring": ("cpsx", 'ConvertTo-SecureString "«»" -AsPlainText -Force'),
    "securestring, -String": ("cpsx", "ConvertTo-SecureString -String '«»' -AsPlainText -Force"),
    "securestring, other order": ("cpsx", "ConvertTo-SecureString -AsPlainText -Force '«»'"),
    "pscredential": ("cpsx", 'New-Object System.Net.NetworkCredential("a", "«»")'),
    "sqlcmd": ("cpx", "sqlcmd -S db -U sa -P «» -Q 'select 1'"),
    "sqlcmd, quotes": ("cpsx", "/opt/mssql-tools/bin/sqlcmd -S db -U sa -P '«»'"),
    "sqlplus": ("cpx", "sqlplus scott/«»@orcl"),
    "mongosh": ("cpx", "mongosh -u root -p «» --authenticationDatabase admin"),
    "mongodump": ("cpx", "mongodump --host db -u root -p «»"),
    "smbclient": ("cpx", "smbclient //srv/share -U jdoe%«»"),
    "mount": ("cpx", "mount -t cifs //srv/a /mnt -o username=jdoe,password=«»,vers=3.0"),
    "rdp": ("cpx", "xfreerdp /v:srv /u:jdoe /p:«» /cert:ignore"),
    "rabbitmq": ("cpx", "rabbitmqctl add_user app «»"),
    "chpasswd": ("cpx", "echo 'root:«»' | chpasswd"),
    "sudo": ("cpx", "echo «» | sudo -S apt update"),
    "vault": ("px", "vault login «»"),
    "vault, kv": ("cpx", "vault kv put secret/db password=«»"),
    "keytool": ("cpx", "keytool -list -keystore a.jks -storepass «»"),
    "gpg": ("cpx", "gpg --batch --passphrase «» -d a.gpg"),
    "heroku": ("cpx", "heroku config:set DB_PASSWORD=«» -a x"),
    "gh secret": ("cpx", "gh secret set DB_PASSWORD --body '«»'"),
    "ansible": ("cpx", "ansible all -m ping -e 'ansible_password=«»'"),
    "ipmitool": ("cpx", "ipmitool -I lanplus -H 10.0.0.9 -U ADMIN -P «» power status"),
    "several lines": ("cpx", "docker run -d \\\n  -e MYSQL_ROOT_PASSWORD=«» \\\n  mysql:8"),
    "several lines of mysql": ("cpx", "mysql -h db \\\n  -u root \\\n  -p«» shop"),
    "az": ("cpx", "az login --service-principal -u app -p «» --tenant t"),
    "lftp": ("cpx", "lftp -u jdoe,«» sftp://srv"),
    "nmcli": ("cpx", 'nmcli dev wifi connect office password "«»"'),
}


@pytest.mark.parametrize(("kinds", "shape"), SHAPES.values(), ids=SHAPES)
def test_a_password_of_a_command_is_taken(kinds, shape):
    assert surviving(shape, kinds) == []


@pytest.mark.parametrize("word", ["correcthorse", "sunny-meadow"])
@pytest.mark.parametrize("name", ["mysql", "sshpass", "openssl", "docker login"])
def test_a_flag_that_is_a_passwords_makes_a_password_of_any_word(name, word):
    _, shape = SHAPES[name]

    assert word not in cleaned(shape.replace("«»", word))


@pytest.mark.parametrize(
    "command",
    [
        "mysql -u root -p shop",
        "mysql -u root -p$DB_PASSWORD shop",
        "mysql -h db -u root --port=3306 shop",
        'sshpass -p "$PASSWORD" ssh root@10.0.0.1',
        "docker login -u ci -p ${TOKEN} registry.example.com",
        "docker run -p 8080:80 nginx",
        "mkdir -p build/lib && zip -r a.zip build",
        "curl -u user:password https://x.example.com",
        "curl -u admin: https://x.example.com",
        "ssh -p 2222 root@10.0.0.1",
        "psql -h db -p 5432 -U app",
        "mongosh -u root -p --host db",
        "redis-cli -a $REDIS_PASSWORD ping",
        "net use Z: /delete",
        "openssl rsa -in a.pem -passin env:PASS",
    ],
)
def test_a_command_without_a_password_stays(command):
    assert cleaned(command) == command
