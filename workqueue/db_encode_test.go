package workqueue_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// Types like those of an application.
type (
	topicName string
	sequence  int
	flag      bool
	blob      []byte
	ratio     float64
	document  struct {
		A string `json:"a"`
	}
	pointerDocument struct{ a string }
)

// MarshalJSON is declared on the pointer only.
func (d *pointerDocument) MarshalJSON() ([]byte, error) { return json.Marshal("document " + d.a) }

var (
	someID   = uuid.MustParse("01a1fd2d-e259-7607-ad7c-6a1647781b63")
	someTime = time.Date(2026, 2, 28, 23, 30, 0, 123456789, time.FixedZone("", -3*3600))
	aText    = "text"
	pText    = &aText
)

// null stands for NULL among the expected values.
const null = "<NULL>"

// stored lists values and what the column then holds, as PostgreSQL writes it.
var stored = []struct {
	typ   string
	value any
	want  string
}{
	{"text", "", ""},
	{"text", "NULL", "NULL"},
	{"text", `a"b\c{d},e' `, `a"b\c{d},e' `},
	{"text", "\n\t€ 🤖", "\n\t€ 🤖"},
	{"text", topicName(""), ""},
	{"text", topicName("NULL"), "NULL"},
	{"text", topicName(`a,b"\`), `a,b"\`},
	{"text", &pText, "text"},
	{"text", sql.NullString{String: "a,b", Valid: true}, "a,b"},
	{"text", sql.NullString{}, null},
	{"text", pgtype.Text{String: "NULL", Valid: true}, "NULL"},
	{"text", someID, someID.String()},
	{"text", (*string)(nil), null},
	{"text", (**string)(nil), null},
	{"text", nil, null},
	{"bytea", []byte{}, `\x`},
	{"bytea", []byte{0, 255, '"', '\\'}, `\x00ff225c`},
	{"bytea", blob{1, 2}, `\x0102`},
	{"bytea", sql.RawBytes{1}, `\x01`},
	{"bytea", json.RawMessage(`{}`), `\x7b7d`},
	{"bytea", []byte(nil), null},
	{"bigint", int64(math.MaxInt64), "9223372036854775807"},
	{"bigint", int64(math.MinInt64), "-9223372036854775808"},
	{"bigint", uint32(5), "5"},
	{"bigint", sequence(5), "5"},
	{"bigint", json.Number("5"), "5"},
	{"bigint", sql.NullInt64{Int64: 5, Valid: true}, "5"},
	{"bigint", sql.NullInt64{}, null},
	{"integer", math.MinInt32, "-2147483648"},
	{"integer", uint8(255), "255"},
	{"smallint", math.MaxInt16, "32767"},
	{"numeric", "12.50", "12.50"},
	{"numeric", "-1e3", "-1000"},
	{"numeric", 12, "12"},
	{"numeric", 0.1, "0.1"},
	{"numeric", json.Number("1.50"), "1.50"},
	{"numeric", pgtype.Numeric{}, null},
	{"double precision", 0.1, "0.1"},
	{"double precision", 5e-324, "5e-324"},
	{"double precision", math.NaN(), "NaN"},
	{"double precision", math.Inf(-1), "-Infinity"},
	{"double precision", ratio(2), "2"},
	{"double precision", 3, "3"},
	{"boolean", true, "true"},
	{"boolean", flag(false), "false"},
	{"boolean", sql.NullBool{Bool: true, Valid: true}, "true"},
	{"jsonb", `{"a": [1, "x,y", "\\u0000", "\\\\\""]}`, `{"a": [1, "x,y", "\\u0000", "\\\\\""]}`},
	{"jsonb", []byte(`{"a":1}`), `{"a": 1}`},
	{"jsonb", json.RawMessage(`null`), `null`},
	{"jsonb", map[string]any{"a": `"}`}, `{"a": "\"}"}`},
	{"jsonb", document{"x,y"}, `{"a": "x,y"}`},
	{"jsonb", &pointerDocument{"x"}, `"document x"`},
	{"jsonb", []int{1, 2}, `[1, 2]`},
	{"jsonb", 5, `5`},
	{"jsonb", true, `true`},
	{"jsonb", (*document)(nil), null},
	{"jsonb", json.RawMessage(nil), null},
	{"date", "2026-02-28", "2026-02-28"},
	{"date", someTime, "2026-02-28"}, // its own day, not that of UTC
	{"date", sql.NullTime{Time: someTime, Valid: true}, "2026-02-28"},
	{"timestamptz", someTime, "2026-03-01 02:30:00.123456+00"},
	{"timestamptz", &someTime, "2026-03-01 02:30:00.123456+00"},
	{"timestamptz", sql.NullTime{Time: someTime, Valid: true}, "2026-03-01 02:30:00.123456+00"},
	{"timestamptz", sql.NullTime{}, null},
	{"timestamptz", "2026-02-28T00:00:00Z", "2026-02-28 00:00:00+00"},
	{"timestamptz", time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC), "1950-01-01 00:00:00+00"}, // a date of birth
	{"uuid", someID, someID.String()},
	{"uuid", strings.ToUpper(someID.String()), someID.String()},
	{"uuid", [16]byte(someID), someID.String()},
	{"uuid", uuid.NullUUID{UUID: someID, Valid: true}, someID.String()},
	{"uuid", uuid.NullUUID{}, null},
	{"uuid", pgtype.UUID{Bytes: someID, Valid: true}, someID.String()},
}

// unstorable lists values that their column cannot hold, or could hold only after a guess.
var unstorable = []struct {
	typ   string
	value any
}{
	{"text", "a\x00b"}, {"text", topicName("a\x00b")}, {"text", sql.NullString{String: "\xff", Valid: true}},
	{"text", 5}, {"text", true}, {"text", 1.5}, {"text", someTime}, {"text", []byte("bytes")}, {"text", []string{"a"}},
	{"text", document{}}, {"text", make(chan int)}, {"text", map[string]int{"a,b": 1}},
	{"bytea", "text"}, {"bytea", 5},
	{"bigint", uint64(math.MaxUint64)}, {"bigint", 5.5}, {"bigint", "five"}, {"bigint", true},
	{"bigint", "9223372036854775808"},
	{"integer", math.MaxInt32 + 1}, {"integer", math.MinInt32 - 1}, {"smallint", math.MaxInt16 + 1},
	{"smallint", -40000},
	{"numeric", "12,50"}, {"numeric", ""}, {"numeric", "1; DROP"}, {"numeric", math.Inf(1)}, {"numeric", true},
	{"double precision", "x"}, {"double precision", true},
	{"boolean", 1}, {"boolean", "yes"},
	{"jsonb", "not json"}, {"jsonb", ""}, {"jsonb", `{"a": "\u0000"}`}, {"jsonb", `"\\\u0000"`}, {"jsonb", "\"\xff\""},
	{"jsonb", `"\ud800"`}, {"jsonb", `["\udc00\ud800"]`}, {"jsonb", "1e999999"},
	{"jsonb", make(chan int)}, {"jsonb", math.NaN()}, {"jsonb", map[string]any{"a": "\x00"}},
	{"date", "28.2.2026"}, {"date", "infinity"}, {"date", "2026-02-30"}, {"date", 5}, {"date", time.Unix(1<<60, 0)},
	{"timestamptz", "infinity"}, {"timestamptz", "tomorrow"}, {"timestamptz", 5}, {"timestamptz", time.Unix(1<<60, 0)},
	{"timestamptz", time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"uuid", "no id"}, {"uuid", []byte{1}}, {"uuid", 5},
}

// inserters lists the forms in which arguments are sent.
func inserters(t *testing.T, db *pgtest.DB) map[string]func(context.Context, *workqueue.Table,
	...workqueue.NewRow) ([]workqueue.Enqueued, error) {
	throughPgx := func(pool *pgxpool.Pool) func(context.Context, *workqueue.Table,
		...workqueue.NewRow) ([]workqueue.Enqueued, error) {
		return func(ctx context.Context, table *workqueue.Table, rows ...workqueue.NewRow) (in []workqueue.Enqueued,
			err error) {
			err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				in, err = table.Insert(ctx, workqueue.Pgx(tx), rows...)
				return err
			})
			return in, err
		}
	}
	config := db.Pool.Config()
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	simple, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(simple.Close)
	handle := db.SQL(t)
	return map[string]func(context.Context, *workqueue.Table, ...workqueue.NewRow) ([]workqueue.Enqueued, error){
		"pgx":                 throughPgx(db.Pool),
		"pgx simple protocol": throughPgx(simple),
		"database sql": func(ctx context.Context, table *workqueue.Table,
			rows ...workqueue.NewRow) ([]workqueue.Enqueued, error) {
			tx, err := handle.BeginTx(ctx, nil)
			if err != nil {
				return nil, err
			}
			defer tx.Rollback()
			in, err := table.Insert(ctx, workqueue.SQL(tx), rows...)
			if err != nil {
				return nil, err
			}
			return in, tx.Commit()
		},
	}
}

// tableOf creates a table with a column of the type, followed by one that shows when values have moved.
func tableOf(t *testing.T, db *pgtest.DB, typ string) *workqueue.Table {
	t.Helper()
	return create(t, db, workqueue.Spec{
		Table:   "of_" + strings.ReplaceAll(typ, " ", "_"),
		Columns: []workqueue.Column{{Name: "v", Type: typ}, {Name: "next", Type: "text"}},
	})
}

func create(t *testing.T, db *pgtest.DB, spec workqueue.Spec) *workqueue.Table {
	t.Helper()
	spec.Schema = db.Schema
	up, _, err := spec.DDL()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), up); err != nil {
		t.Fatal(err)
	}
	table, err := workqueue.Open(spec, workqueue.Telemetry{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// A row holds the same values, in whichever form they were sent.
func TestValuesArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ways := inserters(t, db)
	tables := map[string]*workqueue.Table{}
	for _, typ := range postgres.ColumnTypes {
		tables[typ] = tableOf(t, db, typ)
	}
	for _, c := range stored {
		for way, insert := range ways {
			t.Run(fmt.Sprintf("%s/%T %v/%s", c.typ, c.value, c.value, way), func(t *testing.T) {
				in, err := insert(t.Context(), tables[c.typ], workqueue.NewRow{Values: []any{c.value, "first"}},
					workqueue.NewRow{Values: []any{c.value, "second"}})
				if err != nil {
					t.Fatal(err)
				}
				for i, next := range []string{"first", "second"} {
					var got, gotNext string
					err := db.Pool.QueryRow(t.Context(), "SELECT coalesce(v::text, $2), next FROM "+
						tables[c.typ].Name()+" WHERE id = $1", in[i].ID, null).Scan(&got, &gotNext)
					if err != nil || got != c.want || gotNext != next {
						t.Errorf("row %d holds %q and %q (error %v), want %q and %q", i, got, gotNext, err, c.want,
							next)
					}
				}
			})
		}
	}
}

// Values that cannot be stored are refused before anything is sent, and the error names the column.
func TestUnstorableValuesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range unstorable {
		t.Run(fmt.Sprintf("%s/%T", c.typ, c.value), func(t *testing.T) {
			t.Parallel()
			table, err := workqueue.Open(workqueue.Spec{Table: "t",
				Columns: []workqueue.Column{{Name: "v", Type: c.typ}}}, workqueue.Telemetry{})
			if err != nil {
				t.Fatal(err)
			}
			wantInvalid(t, table.Check(&workqueue.NewRow{Values: []any{c.value}}), "v")
		})
	}
}

// A claim finds the lane that an insert wrote, whatever Go type names it.
func TestLanesOfAnyGoType(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ways := inserters(t, db)
	for _, c := range stored {
		if c.want == null || c.want == "NaN" {
			continue
		}
		t.Run(fmt.Sprintf("%s/%T %v", c.typ, c.value, c.value), func(t *testing.T) {
			table := create(t, db, workqueue.Spec{
				Table:   "lane_" + strings.ReplaceAll(uuid.NewString()[:13], "-", "_"),
				Columns: []workqueue.Column{{Name: "lane", Type: c.typ, NotNull: true}},
				Lanes:   []string{"lane"},
			})
			for way, insert := range ways {
				in, err := insert(t.Context(), table, workqueue.NewRow{Values: []any{c.value}})
				if err != nil {
					t.Fatal(err)
				}
				rows, err := table.On(db.Pool).Claim(t.Context(), workqueue.NewOwnerToken(), time.Minute, 1, c.value)
				if err != nil || len(rows) != 1 || rows[0].ID != in[0].ID {
					t.Errorf("%s: claimed %v, error %v", way, rows, err)
				}
			}
		})
	}
}
