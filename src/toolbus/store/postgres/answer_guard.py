"""The server's own check that only members of a role answer questions and grant.

It holds for each program with the database's address, by a store or by plain SQL; a database
without the role has no check. A program that is not a member can ask, take an approval, and record
the result of the call, by `toolbus.approvals.questions.TRANSITIONS`; it can approve by an active
grant; and it changes nothing else of a question. It cannot release a question, either: there, a
call that no guard asks about any more is denied while its earlier question has no answer.
"""

from __future__ import annotations

APPROVER = "toolbus_approver"
"""The role, as `CREATE ROLE toolbus_approver` makes it."""

NO_APPROVER = "TB002"
"""The code of the error for who is no member."""

# Of two fields of one name JSON has no rule for which counts: so there may be none. Checked after
# a row was written, for before that nobody knows whether it is a new one. The path is fixed: who
# calls it might have operators of his own.
_FUNCTION = """CREATE FUNCTION toolbus.check_answer() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
    DECLARE
        approver oid := (SELECT oid FROM pg_roles WHERE rolname = 'toolbus_approver');
        moving text[] := '{state,call_id,delivered,taken_by,taken_ns,ended_ns,settled_by}';
        answers text[] := '{grant,answered_by,answered_from,answered_ns}';
        old_body jsonb := '{}';
        new_body jsonb;
        step text;
    BEGIN
        IF approver IS NULL OR pg_has_role(current_user, approver, 'MEMBER') THEN
            RETURN NULL;
        END IF;
        IF NEW.name LIKE 'question:%' AND (SELECT count(*) = count(DISTINCT key)
            FROM json_object_keys(convert_from(NEW.body, 'UTF8')::json) AS key)
        THEN
            new_body := toolbus.as_jsonb(convert_from(NEW.body, 'UTF8'));
            step := coalesce(new_body ->> 'state', 'pending');
            IF TG_OP = 'INSERT' AND step IN ('pending', 'hosted') THEN
                RETURN NULL;
            ELSIF TG_OP = 'UPDATE' AND (OLD.name, OLD.session) = (NEW.name, NEW.session) THEN
                old_body := toolbus.as_jsonb(convert_from(OLD.body, 'UTF8'));
                step := coalesce(old_body ->> 'state', 'pending') || '>' || step;
                IF new_body - moving = old_body - moving AND (split_part(step, '>', 1)
                    = split_part(step, '>', 2) OR step IN ('pending>expired', 'pending>withdrawn',
                    'approved>expired', 'approved>withdrawn', 'approved>taken', 'taken>done',
                    'taken>unknown', 'unknown>done', 'unknown>withdrawn', 'hosted>done',
                    'hosted>unheard', 'unheard>done'))
                THEN
                    RETURN NULL;
                ELSIF step = 'pending>approved'
                    AND new_body - moving - answers = old_body - moving - answers
                    AND toolbus.is_granted(new_body)
                THEN
                    RETURN NULL;
                END IF;
            END IF;
        END IF;
        RAISE 'only members of the role toolbus_approver may answer, or grant'
            USING ERRCODE = 'TB002';
    END $$"""

_IS_GRANTED = """CREATE FUNCTION toolbus.is_granted(question jsonb) RETURNS boolean LANGUAGE sql
    STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM toolbus.sessions AS one JOIN toolbus.states AS kept ON kept.session = one.key,
            toolbus.as_jsonb(convert_from(kept.body, 'UTF8')) AS grant_body
        WHERE coalesce(one.long_id, one.id) = coalesce(
                nullif(question ->> 'root_session_id', ''), question ->> 'session_id')
            AND kept.name = 'grant:' || (question ->> 'grant')
            AND coalesce((grant_body ->> 'revoked_ns')::numeric, 0) = 0
            AND (coalesce((grant_body ->> 'expires_ns')::numeric, 0) = 0
                OR (grant_body ->> 'expires_ns')::numeric
                    > extract(epoch FROM clock_timestamp())::numeric * 1e9)
            AND (grant_body ->> 'tool', coalesce(grant_body ->> 'guard', ''),
                coalesce(grant_body ->> 'rule', ''), coalesce(grant_body ->> 'rules', ''),
                coalesce(grant_body ->> 'definition', ''), grant_body ->> 'granted_by')
                = (question ->> 'tool', coalesce(question ->> 'guard', ''),
                coalesce(question ->> 'rule', ''), coalesce(question ->> 'rules', ''),
                coalesce(question ->> 'definition', ''), question ->> 'answered_by'))
    $$"""

_NAMES = "{row}.name LIKE 'question:%' OR {row}.name LIKE 'grant:%' OR {row}.name LIKE 'granted:%'"
_NEW, _OLD = _NAMES.replace("{row}", "NEW"), _NAMES.replace("{row}", "OLD")

ANSWER_GUARD = (
    _IS_GRANTED,
    _FUNCTION,
    f"""CREATE TRIGGER check_new_answer AFTER INSERT ON toolbus.states
        FOR EACH ROW WHEN ({_NEW}) EXECUTE FUNCTION toolbus.check_answer()""",
    f"""CREATE TRIGGER check_answer AFTER UPDATE ON toolbus.states
        FOR EACH ROW WHEN ({_NEW} OR {_OLD}) EXECUTE FUNCTION toolbus.check_answer()""",
)
"""The step of the schema that makes it."""
