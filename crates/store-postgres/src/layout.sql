-- The layout of Baton's table in PostgreSQL 14 or newer. It may be run again: what is there stays.

-- One row for each record. `record` is the truth; the other columns say the same to people and to SQL.
CREATE TABLE IF NOT EXISTS @table@ (
    key              text COLLATE "C" PRIMARY KEY,
    kind             text NOT NULL,
    election         text COLLATE "C",
    leader           text,
    fencing_token    bigint,
    state            text,
    lease_ms         bigint,
    lease_expiration timestamptz,
    store            text,
    beat             timestamptz NOT NULL DEFAULT clock_timestamp(),
    version          uuid NOT NULL DEFAULT gen_random_uuid(),
    record           json NOT NULL
) WITH (fillfactor = 50);

-- The highest token that each election ever gave. It outlives the election's row, so that tokens rise after a DELETE
-- too. `beat` is that of a row that was deleted.
CREATE TABLE IF NOT EXISTS @marks@ (
    key      text COLLATE "C" PRIMARY KEY,
    epoch    bigint NOT NULL,
    lease_ms bigint NOT NULL,
    beat     timestamptz
);

-- Tells those who LISTEN of every change, whoever made it. A change by hand gets a version of its own, so that no
-- swap overwrites it unseen; a row that is deleted leaves the beat of its lease behind.
CREATE OR REPLACE FUNCTION @changed@() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $baton$
DECLARE
    channel CONSTANT text := TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        UPDATE @marks@ AS m SET beat = t.beat FROM @table@ AS t WHERE t.key = m.key;
        PERFORM pg_notify(channel, '');
    ELSIF TG_WHEN = 'BEFORE' THEN
        NEW.version := gen_random_uuid();
        RETURN NEW;
    ELSIF TG_OP = 'DELETE' THEN
        UPDATE @marks@ AS m SET beat = OLD.beat WHERE m.key = OLD.key;
        PERFORM pg_notify(channel, OLD.key || ' ');
    ELSE
        IF TG_OP = 'UPDATE' AND OLD.key <> NEW.key THEN
            PERFORM pg_notify(channel, OLD.key || ' ');
        END IF;
        PERFORM pg_notify(channel, NEW.key || ' ' || NEW.version);
    END IF;
    RETURN NULL;
END
$baton$;

REVOKE EXECUTE ON FUNCTION @changed@() FROM PUBLIC;

CREATE OR REPLACE TRIGGER baton_by_hand BEFORE UPDATE ON @table@ FOR EACH ROW
    WHEN (NEW.version = OLD.version) EXECUTE FUNCTION @changed@();
CREATE OR REPLACE TRIGGER baton_changed AFTER INSERT OR UPDATE OR DELETE ON @table@ FOR EACH ROW
    EXECUTE FUNCTION @changed@();
CREATE OR REPLACE TRIGGER baton_emptied BEFORE TRUNCATE ON @table@ FOR EACH STATEMENT
    EXECUTE FUNCTION @changed@();

-- For users' own transactions: passes if the token may touch the resource, else raises an exception.
-- SQLSTATE ZB001: the token is stale. ZB002: the call is wrong. ZB003: a command holds the resource. ZB004: a row is
-- not intact. ZB005: the leader must acknowledge what its predecessor left first.
CREATE OR REPLACE FUNCTION @fence@(resource text, election text, token bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $baton$
DECLARE
    place   CONSTANT text := 'fences/' || $1;
    fence   @table@%ROWTYPE;
    ruling  record;
    body    jsonb;
    tail    jsonb;
    part    record;
    idle    interval;
    stale   text;
BEGIN
    IF $1 IS NULL OR $2 IS NULL OR $3 IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'ZB002', MESSAGE = 'a fence needs a resource, an election and a token';
    END IF;
    IF octet_length($1) > 64 OR $1 !~ '^[a-z0-9_][a-z0-9._-]*(/[a-z0-9_][a-z0-9._-]*)*$'
        OR $1 ~ '\.\.|\.(/|$)|\.lock(/|$)|(^|/)(candidates|history|fences)(/|$)' THEN
        RAISE EXCEPTION USING ERRCODE = 'ZB002', MESSAGE = format('`%s` is no name for a resource', $1),
            HINT = 'names are like orders or orders/eu: a-z, 0-9, `.`, `_`, `-`';
    END IF;

    -- Whoever raises the mark is alone with the resource; those who show the same token share it. The lock lasts until
    -- the transaction ends, so a later token passes only when no transaction of an earlier one is open.
    LOOP
        SELECT * INTO fence FROM @table@ AS t WHERE t.key = place;
        IF NOT FOUND THEN
            INSERT INTO @table@ (key, kind, record) VALUES (place, 'fence', '{}') ON CONFLICT DO NOTHING;
            EXIT WHEN FOUND;
        ELSIF fence.fencing_token < $3 THEN
            SELECT * INTO fence FROM @table@ AS t WHERE t.key = place FOR NO KEY UPDATE;
            EXIT WHEN FOUND;
        ELSE
            SELECT * INTO fence FROM @table@ AS t WHERE t.key = place FOR SHARE;
            EXIT WHEN FOUND AND (fence.fencing_token >= $3) IS NOT FALSE;
        END IF;
    END LOOP;
    IF fence.key IS NOT NULL
        AND (fence.kind <> 'fence' OR num_nulls(fence.election, fence.fencing_token, fence.store) > 0) THEN
        RAISE EXCEPTION USING ERRCODE = 'ZB004', MESSAGE = format('the row `%s` is not intact', place);
    ELSIF fence.election <> $2 THEN
        RAISE EXCEPTION USING ERRCODE = 'ZB002',
            MESSAGE = format('the resource `%s` belongs to the election `%s`', $1, fence.election),
            HINT = format('an operator binds it to another: baton fence %s --bind %s', $1, $2);
    END IF;

    -- The election as it stands, looked at while the resource is locked.
    SELECT t.fencing_token AS epoch, t.state, t.lease_ms, t.store, t.leader, clock_timestamp() - t.beat AS age
        INTO ruling FROM @table@ AS t WHERE t.key = $2 AND t.kind = 'election';
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'ZB002', MESSAGE = format('there is no election `%s`', $2);
    ELSIF num_nulls(ruling.epoch, ruling.state, ruling.store) > 0
        OR (ruling.state IN ('held', 'synchronising') AND ruling.lease_ms IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'ZB004', MESSAGE = format('the row `%s` is not intact', $2);
    ELSIF fence.store <> ruling.store THEN
        RAISE EXCEPTION USING ERRCODE = 'ZB002', MESSAGE = format(
            'the resource `%s` trusts the elections of store %s, and this one is of store %s',
            $1, fence.store, ruling.store);
    END IF;
    stale := CASE
        WHEN $3 < fence.fencing_token THEN format('the resource has seen token %s', fence.fencing_token)
        WHEN $3 > ruling.epoch THEN 'it was never given: it is of another election or store'
        WHEN $3 < ruling.epoch THEN format('epoch %s has begun', ruling.epoch)
        WHEN ruling.state = 'offered' THEN 'the offer of it has not been claimed'
        WHEN ruling.state NOT IN ('held', 'synchronising') THEN format('the election is %s', ruling.state)
        -- In the other levels of isolation the beat that is seen is that of the snapshot, and tells nothing.
        WHEN current_setting('transaction_isolation') LIKE 'read %'
            AND ruling.age >= ruling.lease_ms * interval '1 millisecond' THEN 'the lease has run out'
    END;
    IF stale IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'ZB001', MESSAGE = format('token %s of `%s` is stale: %s', $3, $2, stale),
            HINT = 'this transaction must not be committed; only the leader with the current token may go on';
    ELSIF ruling.state = 'synchronising' THEN
        RAISE EXCEPTION USING ERRCODE = 'ZB005',
            MESSAGE = format('%s has not yet taken on what its predecessor left', ruling.leader),
            HINT = format('it reads and acknowledges it with `baton handover %s`', $2);
    ELSIF clock_timestamp() - fence.beat < fence.lease_ms * interval '1 millisecond' THEN
        RAISE EXCEPTION USING ERRCODE = 'ZB003', MESSAGE = format('a command holds the resource `%s`', $1),
            HINT = 'wait until `baton fence … -- CMD` has ended';
    END IF;

    -- Nobody who was stopped holds the resource for ever: the server ends a transaction that stands idle for longer
    -- than a lease.
    idle := ruling.lease_ms * interval '1 millisecond';
    IF current_setting('idle_in_transaction_session_timeout')::interval
        NOT BETWEEN interval '1 millisecond' AND idle THEN
        PERFORM set_config('idle_in_transaction_session_timeout', ruling.lease_ms::text, true);
    END IF;
    IF fence.fencing_token = $3 THEN
        RETURN;
    END IF;

    -- A later token: the mark rises, in the record that `baton fence` keeps too.
    body := coalesce(fence.record::jsonb, jsonb_build_object('format', 1, 'resource', $1, 'store', ruling.store,
        'election', $2, 'beat', 0, 'tail', '[]'::jsonb));
    tail := body -> 'tail';
    IF body ->> 'format' <> '1' OR body ->> 'highest' <> fence.fencing_token::text
        OR jsonb_typeof(tail) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION USING ERRCODE = 'ZB004',
            MESSAGE = format('the row `%s` is not intact, or of a newer Baton', place);
    END IF;
    IF jsonb_array_length(tail) >= 64 THEN
        FOR part IN
            SELECT (e.entry ->> 'seq')::bigint / 256 AS number, jsonb_agg(e.entry ORDER BY e.at) AS entries
            FROM jsonb_array_elements(tail) WITH ORDINALITY AS e (entry, at) WHERE e.at <= 32 GROUP BY 1
        LOOP
            INSERT INTO @table@ AS t (key, kind, record)
            VALUES (place || '/history/' || part.number, 'fence-log',
                jsonb_build_object('format', 1, 'entries', part.entries)::json)
            ON CONFLICT (key) DO UPDATE SET record = jsonb_set(t.record::jsonb, '{entries}', (
                -- An entry may stand there already: whoever moved it first was broken off.
                SELECT jsonb_agg(entry ORDER BY seq) FROM (
                    SELECT DISTINCT ON (seq) (entry ->> 'seq')::bigint AS seq, entry
                    FROM jsonb_array_elements((t.record::jsonb -> 'entries') || part.entries) AS x (entry)
                ) AS y))::json;
        END LOOP;
        SELECT jsonb_agg(e.entry ORDER BY e.at) INTO tail
            FROM jsonb_array_elements(tail) WITH ORDINALITY AS e (entry, at) WHERE e.at > 32;
    END IF;
    tail := tail || jsonb_build_object('seq', coalesce((tail -> -1 ->> 'seq')::bigint, 0) + 1, 'token', $3,
        'agent', ruling.leader, 'note', 'in a transaction of ' || session_user,
        'at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'));
    body := body
        || jsonb_build_object('highest', $3, 'hold', NULL, 'beat', (body ->> 'beat')::bigint + 1, 'tail', tail,
            'free', false);
    UPDATE @table@ AS t SET election = $2, fencing_token = $3, store = ruling.store, lease_ms = NULL,
        lease_expiration = NULL, beat = clock_timestamp(), version = gen_random_uuid(), record = body::json
        WHERE t.key = place;
END
$baton$;
REVOKE EXECUTE ON FUNCTION @fence@(text, text, bigint) FROM PUBLIC;
