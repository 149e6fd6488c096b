"""Passwords in addresses, connection strings and SQL."""

import pytest
from tests.unit.redaction.secrets.builtin.shapes import surviving

SHAPES = {
    "postgres": ("cpxu", "postgres://app:«»@db.internal:5432/shop"),
    "a driver": ("cpxu", "postgresql+asyncpg://app:«»@db/shop"),
    "mysql, a driver": ("cpxu", "mysql+pymysql://app:«»@10.0.0.5/shop"),
    "another scheme": ("cpxu", "cockroachdb://app:«»@db:26257/shop"),
    "mongodb": ("cpxu", "mongodb+srv://app:«»@cluster0.ab1cd.mongodb.net/?retryWrites=true"),
    "redis without a user": ("cpxu", "redis://:«»@cache:6379/0"),
    "rediss": ("cpxu", "rediss://default:«»@cache.example.com:6380"),
    "amqp": ("cpxu", "amqp://app:«»@mq:5672/%2f"),
    "clickhouse": ("cpxu", "clickhouse://default:«»@ch:9000/x"),
    "https": ("cpxu", "pip install --index-url https://ci:«»@pypi.example.com/simple"),
    "git": ("cpxu", "https://deploy:«»@git.example.com/a/b.git"),
    "socks": ("cpx", "socks5://u:«»@proxy:1080"),
    "ldap": ("cpx", "ldaps://cn=admin:«»@ldap.example.com"),
    "in json": ("cpxu", '{"url": "postgres://app:«»@db/shop"}'),
    "a host of a container": ("cpx", "DATABASE_URL=postgresql://app:«»@${DB_HOST}:5432/x"),
    "signs that are to be escaped": ("s", "postgres://app:«»@db.internal/shop"),
    "go, mysql": ("cpxu", 'sql.Open("mysql", "app:«»@tcp(10.0.0.5:3306)/app?parseTime=true")'),
    "go, a socket": ("cpx", "root:«»@unix(/var/run/mysqld.sock)/app"),
    "jdbc, semicolon": ("cpsxu", "jdbc:sqlserver://db:1433;databaseName=x;user=sa;password=«»;"),
    "jdbc, query": ("cpxu", "jdbc:mysql://db/x?user=app&password=«»&useSSL=true"),
    "jdbc, query at the end": ("cpxu", "jdbc:postgresql://db/x?user=app&password=«»"),
    "jdbc, oracle": ("cpx", "jdbc:oracle:thin:scott/«»@//db:1521/orcl"),
    "ado": ("cpsxu", '"Server=db;Database=x;User Id=sa;Password=«»;Encrypt=true"'),
    "ado, Pwd": ("cpsxu", "Server=db;Uid=sa;Pwd=«»;"),
    "ado, at the end": ("cpsxu", '"Data Source=db;Uid=sa;Pwd=«»"'),
    "odbc": ("cpsx", "Driver={ODBC Driver 18};Server=db;UID=sa;PWD={«»};"),
    "libpq": ("cpxu", 'psql "host=db dbname=x user=a password=«» sslmode=require"'),
    "libpq, python": ("cpx", 'psycopg2.connect("host=db user=a password=«»")'),
    "mysql, create user": ("cpsxu", "CREATE USER 'a'@'%' IDENTIFIED BY '«»';"),
    "mysql, plugin": ("cpsx", "CREATE USER a IDENTIFIED WITH caching_sha2_password BY '«»';"),
    "mysql, grant": ("cpsx", "GRANT ALL ON *.* TO 'a'@'%' IDENTIFIED BY '«»' WITH GRANT OPTION;"),
    "mysql, set": ("cpsx", "SET PASSWORD FOR 'a'@'localhost' = PASSWORD('«»');"),
    "mysql, set without a function": ("cpsx", "SET PASSWORD FOR 'a'@'localhost' = '«»';"),
    "mysql, in a shell": (
        "cpsx",
        """mysql -e "ALTER USER 'root'@'localhost' IDENTIFIED BY '«»'" """,
    ),
    "oracle": ("cpx", "CREATE USER app IDENTIFIED BY «»;"),
    "oracle, quotes": ("cpsx", 'ALTER USER app IDENTIFIED BY "«»" ACCOUNT UNLOCK;'),
    "clickhouse, user": ("cpsx", "CREATE USER a IDENTIFIED WITH sha256_password BY '«»'"),
    "postgres, create": ("cpsxu", "CREATE USER app WITH PASSWORD '«»';"),
    "postgres, role": (
        "cpsx",
        "CREATE ROLE app LOGIN ENCRYPTED PASSWORD '«»' VALID UNTIL 'infinity';",
    ),
    "postgres, alter": ("cpsxu", "ALTER USER postgres PASSWORD '«»';"),
    "postgres, mapping": (
        "cpsx",
        "CREATE USER MAPPING FOR a SERVER b OPTIONS (user 'x', password '«»');",
    ),
    "postgres, crypt": ("cpsx", "UPDATE u SET h = crypt('«»', gen_salt('bf'));"),
    "sql server": ("cpsxu", "CREATE LOGIN app WITH PASSWORD = N'«»';"),
    "sql server, alter": ("cpsx", "ALTER LOGIN sa WITH PASSWORD='«»' UNLOCK;"),
    "snowflake": ("cpsx", "CREATE USER a PASSWORD='«»' DEFAULT_ROLE = x;"),
    "cassandra": ("cpsx", "CREATE ROLE a WITH PASSWORD = '«»' AND LOGIN = true;"),
    "update": ("cpsxu", "UPDATE users SET password = '«»' WHERE id = 1;"),
    "update, hashed there": ("cpsx", "UPDATE users SET password = MD5('«»') WHERE id = 1;"),
    "mongo, create user": ("cpsx", 'db.createUser({user: "a", pwd: "«»", roles: []})'),
    "mongo, auth": ("cpsx", 'db.auth("a", "«»")'),
    "redis, auth": ("px", "AUTH «»\n"),
    "insert": ("cpsx", "INSERT INTO users (id, login, password) VALUES (1, 'admin', '«»');"),
    "insert, several rows": (
        "cpsx",
        "INSERT INTO users (id, password, mail) VALUES (1, 'Xy12!', 'a@b'), (2, '«»', 'c@d');",
    ),
    "pg_dump": (
        "cpx",
        "COPY public.users (id, login, password) FROM stdin;\n1\ta\tXy12\n2\tadmin\t«»\n\\.\n",
    ),
}


@pytest.mark.parametrize(("kinds", "shape"), SHAPES.values(), ids=SHAPES)
def test_a_password_of_a_database_is_taken(kinds, shape):
    assert surviving(shape, kinds) == []
