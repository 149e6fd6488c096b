"""A check in the server that only members of a role answer questions and create grants.

It applies to each program with access to the database, by a store or by plain SQL; a database
without the role has no check. A program that is not a member can ask, use an approval, and report
the end of the call, along `toolbus.approvals.questions.TRANSITIONS`; it can approve by an active
grant; and it can change nothing else of a question. So it cannot drop a question either: a call
that needs no approval any more is denied as long as its old question is unanswered.
"""

from __future__ import annotations

APPROVER = "toolbus_approver"
"""The role, created by `CREATE ROLE toolbus_approver`."""

NO_APPROVER = "TB002"
"""The error code for programs that are not members."""

# Duplicate fields are refused, since JSON does not define which one applies. The check comes after
# the row is written: before that it is unknown whether the row is new. The search path is fixed,
# since a caller might define operators of its own.
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
"""The statements of the schema that create the check."""
