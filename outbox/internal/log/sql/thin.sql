-- Deletes ticks that are close together: of those that are older than an hour it leaves the last of each second, and of
-- those that are older than a day the last of each minute, and always those between which {{.BatchSize}} numbers were
-- drawn, since what lies between two ticks is one batch. It goes on where it has stopped, {{.MaxThinned}} ticks at a
-- time, and not before another minute's are old enough. It leaves the newest tick, and what others have locked.
CREATE FUNCTION {{.Named "thin"}}() RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    level record;
    begins bigint;
    ends bigint;
    thinned integer := 0;
BEGIN
    {{.SeesAll}}
    FOR own.level IN
        SELECT l.* FROM (VALUES (1, interval '1 hour', 1), (2, interval '1 day', 60)) AS l (place, age, seconds)
    LOOP
        CONTINUE WHEN (
            SELECT t.at > clock_timestamp() - own.level.age - interval '1 minute'
            FROM {{.Named "state"}} AS s
            CROSS JOIN LATERAL (
                SELECT t.at FROM {{.Named "tick"}} AS t WHERE t.n > s.thinned[own.level.place]
                ORDER BY t.n LIMIT 1) AS t) IS NOT FALSE;
        SELECT s.thinned[own.level.place] INTO own.begins FROM {{.Named "state"}} AS s FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN own.begins IS NULL;
        WITH old AS MATERIALIZED (
            SELECT o.n, lead(o.place) OVER (ORDER BY o.n) = o.place AS is_close
            FROM (
                SELECT t.n, t.at, (floor(extract(epoch FROM t.at) / own.level.seconds),
                    (t.seen).seq / {{.BatchSize}}) AS place
                FROM {{.Named "tick"}} AS t WHERE t.n >= own.begins ORDER BY t.n LIMIT {{.MaxThinned}}) AS o
            WHERE o.at <= clock_timestamp() - own.level.age
        ), deleted AS (
            DELETE FROM {{.Named "tick"}} AS t
            USING (
                SELECT t.n FROM {{.Named "tick"}} AS t
                WHERE t.n IN (SELECT o.n FROM old AS o WHERE o.is_close) FOR UPDATE SKIP LOCKED) AS o
            WHERE t.n = o.n RETURNING t.n
        )
        SELECT max(o.n), own.thinned + (SELECT count(*) FROM deleted) INTO own.ends, own.thinned FROM old AS o;
        UPDATE {{.Named "state"}} AS s SET thinned[own.level.place] = own.ends WHERE own.ends > own.begins;
    END LOOP;
    RETURN own.thinned;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "thin"}}() FROM PUBLIC;
