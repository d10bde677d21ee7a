package survey_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/survey"
)

// looks counts the statements that read heads.
type looks struct{ n int }

func (l *looks) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "AS overdue") {
		l.n++
	}
	return ctx
}

func (*looks) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// One statement reads the due rows of a table without lanes, as many as are read to find those in progress. If there is
// no time for that, another reads as many as are read of all lanes together.
func TestHeadsWithoutLanesAreReadOnce(t *testing.T) {
	t.Parallel()
	var looked looks
	db := pgtest.New(t, pgtest.WithPool(func(c *pgxpool.Config) { c.ConnConfig.Tracer = &looked }))
	const few = 100 // as in the function
	_, err := db.Pool.Exec(t.Context(), `
		CREATE TABLE "`+db.Schema+`".rows AS
		SELECT gen_random_uuid() AS id, now() - interval '1 minute' + n * interval '1 millisecond' AS due_at,
			NULL::timestamptz AS completed_at, false AS waiting, (n % 2)::smallint AS status, now() AS locked_until,
			'{}'::jsonb AS headers, gen_random_uuid() AS owner_token, n
		FROM generate_series(1, 20000) AS n;
		CREATE INDEX ON "`+db.Schema+`".rows (due_at, id) WHERE completed_at IS NULL AND NOT waiting;
		CREATE FUNCTION "`+db.Schema+`".late(n int, status smallint) RETURNS smallint LANGUAGE plpgsql STABLE AS $$
		BEGIN
			IF n > 100 THEN
				RAISE EXCEPTION USING ERRCODE = 'query_canceled';
			END IF;
			RETURN status;
		END $$;
		CREATE VIEW "`+db.Schema+`".slow AS SELECT r.id, r.due_at, r.completed_at, r.waiting, r.locked_until, r.headers,
			r.owner_token, "`+db.Schema+`".late(r.n, r.status) AS status FROM "`+db.Schema+`".rows AS r`,
		pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name       string
		seen, read int
	}{{"rows", survey.RunningRows, 1}, {"slow", few, 2}} {
		looked.n = 0
		f := &survey.Facts{Schema: db.Schema, Name: test.name, HeadRows: few}
		heads, err := survey.Heads(t.Context(), survey.Reader{From: db.Pool, Limit: time.Minute}, f, survey.Asked{})
		if err != nil || len(heads) != 1 {
			t.Fatalf("%s: %+v, %v", test.name, heads, err)
		}
		if h := heads[0]; int(h.Seen) != test.seen || h.Ready != h.Running || !h.More {
			t.Errorf("%s: %+v, want %d rows and more", test.name, h, test.seen)
		}
		if looked.n != test.read {
			t.Errorf("%s was read %d times, want %d", test.name, looked.n, test.read)
		}
	}
}
