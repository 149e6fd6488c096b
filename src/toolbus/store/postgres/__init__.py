"""A store on a PostgreSQL server, for agents on several machines; needs the extra `postgres`."""
