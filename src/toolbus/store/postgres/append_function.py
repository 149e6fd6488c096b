"""The function of the server that does one append in one exchange, where nobody else waits."""

from __future__ import annotations

WRITTEN, ELSEWHERE, UNKNOWN_SESSION = 0, 1, 2
"""What it answers: done; the session stands elsewhere; it must be made first."""

# The session is locked before anything is decided. The row of commits is the proof for who lost
# the connection: who looked there meanwhile has put up a barrier, and then this comes too late.
FUNCTION = """CREATE FUNCTION toolbus.append_message(
        new_writer text, new_number bigint, session_id text, at_epoch bigint, at_length bigint,
        at_ns bigint, message_id text, encoding int, message_body text, message_checksum bigint,
        call_ids text[], tools text[], statuses text[], durations bigint[],
        page_records int, page_body text, page_checksum bigint, mentioned text[],
        OUT status int, OUT epoch bigint, OUT length bigint)
    LANGUAGE plpgsql AS $$
    DECLARE
        entry record;
        now_ns bigint := at_ns;
        new_key bigint;
    BEGIN
        SELECT one.key, one.messages, one.records, one.epoch,
            CASE WHEN pg_try_advisory_lock(1952609651, hashtext(session_id))
            THEN NOT pg_advisory_unlock(1952609651, hashtext(session_id)) ELSE true END AS followed
            INTO entry FROM toolbus.sessions AS one WHERE one.id = session_id FOR UPDATE;
        epoch := entry.epoch;
        length := entry.messages;
        IF entry.key IS NULL THEN
            status := 2;
            RETURN;
        ELSIF at_epoch IS NOT NULL AND (at_epoch, at_length) <> (epoch, length) THEN
            status := 1;
            RETURN;
        END IF;
        UPDATE toolbus.commits SET number = new_number, opened = now()
            WHERE writer = new_writer AND greatest(number, barrier) < new_number;
        IF NOT FOUND THEN
            RAISE 'this comes too late' USING ERRCODE = 'TB001';
        END IF;
        IF now_ns = 0 THEN
            now_ns := (extract(epoch FROM clock_timestamp()) * 1e9)::bigint;
        END IF;
        new_key := (nextval('toolbus.batches') << 11) + 1;
        length := length + 1;
        UPDATE toolbus.sessions AS one SET messages = one.messages + 1,
            records = one.records + coalesce(page_records, 0),
            updated_ns = greatest(one.updated_ns, now_ns) WHERE one.id = session_id;
        INSERT INTO toolbus.messages (session, seq, key, id, version, body, checksum, written)
            VALUES (entry.key, length, new_key, message_id, encoding, message_body,
                message_checksum, to_timestamp(now_ns / 1e9));
        IF call_ids IS NOT NULL THEN
            INSERT INTO toolbus.calls (id, key, session, seq, tool, status, duration_ns)
                SELECT call.id, new_key, entry.key, length, call.tool, call.status, call.duration
                FROM unnest(call_ids, tools, statuses, durations)
                    AS call (id, tool, status, duration)
                ON CONFLICT DO NOTHING;
        END IF;
        IF page_records IS NOT NULL THEN
            INSERT INTO toolbus.ledger
                (session, place, seq, key, records, version, body, checksum, written)
                VALUES (entry.key, length, entry.records + 1, new_key, page_records, encoding,
                    page_body, page_checksum, to_timestamp(now_ns / 1e9));
            INSERT INTO toolbus.mentions (id, key, session, place, seq)
                SELECT name, new_key, entry.key, length, entry.records + 1
                FROM unnest(mentioned) AS name ON CONFLICT DO NOTHING;
        END IF;
        IF entry.followed THEN
            PERFORM pg_notify('toolbus', session_id);
        END IF;
        status := 0;
    END $$"""

CALL = """SELECT * FROM toolbus.append_message(%b, %b::bigint, %b, %b::bigint, %b::bigint,
    %b::bigint, %b, %b::int, %b, %b::bigint, %b::text[], %b::text[], %b::text[], %b::bigint[],
    %b::int, %b, %b::bigint, %b::text[])"""
