package reaper_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/reaper"
	"github.com/txwork/txwork/workqueue"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options reaper.Options
		want    string // part of the error; none if empty
	}{
		"zero":               {reaper.Options{}, ""},
		"shortest interval":  {reaper.Options{Interval: reaper.MinInterval}, ""},
		"longest interval":   {reaper.Options{Interval: reaper.MaxInterval}, ""},
		"negative interval":  {reaper.Options{Interval: -time.Second}, "interval is -1s"},
		"interval too short": {reaper.Options{Interval: 99 * time.Millisecond}, "between 100ms and"},
		"interval too long":  {reaper.Options{Interval: 13 * time.Hour}, "interval is 13h0m0s"},
		"lease too short": {reaper.Options{Interval: 200 * time.Millisecond, Lease: 900 * time.Millisecond},
			"lease is 900ms"},
		"negative lease":    {reaper.Options{Lease: -time.Second}, "lease is -1s"},
		"lease of interval": {reaper.Options{Interval: time.Minute, Lease: time.Minute}, "longer than the interval"},
		"negative batch":    {reaper.Options{BatchSize: -1}, "batch size is -1"},
		"batch too large":   {reaper.Options{BatchSize: workqueue.MaxBatch + 1}, "batch size is 10001"},
		"negative limit":    {reaper.Options{PurgeLimit: -1}, "purge limit is -1"},
		"schema":            {reaper.Options{Schema: "a.b"}, `schema "a.b" must match`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.options.Validate()
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (!errors.Is(err, workqueue.ErrInvalid) ||
				!strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want ErrInvalid with %q", err, test.want)
			}
		})
	}
}

// All entry points refuse the same arguments, before they access the database.
func TestArguments(t *testing.T) {
	t.Parallel()
	table, err := workqueue.Open(workqueue.Spec{Table: "work"}, workqueue.Telemetry{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := workqueue.Open(workqueue.Spec{Table: "work"}, workqueue.Telemetry{})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for name, test := range map[string]struct {
		pool   *pgxpool.Pool
		tables []*workqueue.Table
		want   string
	}{
		"nil pool":   {nil, []*workqueue.Table{table}, "pool is nil"},
		"no tables":  {pool, nil, "tables has none"},
		"nil table":  {pool, []*workqueue.Table{table, nil}, "nil at index 1"},
		"same twice": {pool, []*workqueue.Table{table, again}, "txwork.work twice"},
	} {
		_, onceErr := reaper.RunOnce(t.Context(), test.pool, test.tables, reaper.Options{})
		_, healthErr := reaper.Health(t.Context(), test.pool, test.tables)
		for way, err := range map[string]error{
			"Run":     reaper.Run(t.Context(), test.pool, test.tables, reaper.Options{}),
			"RunOnce": onceErr,
			"Health":  healthErr,
		} {
			if !errors.Is(err, workqueue.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s with %s: error %v, want ErrInvalid with %q", way, name, err, test.want)
			}
		}
	}
	if err := reaper.Run(t.Context(), pool, []*workqueue.Table{table}, reaper.Options{Interval: -1}); !errors.Is(err,
		workqueue.ErrInvalid) {
		t.Errorf("Run with bad options: error %v, want ErrInvalid", err)
	}
	if _, err := reaper.Leaders(t.Context(), nil, ""); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("Leaders with a nil pool: error %v, want ErrInvalid", err)
	}
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(reaper.Report{Duration: time.Second, Tables: []reaper.TableReport{{
		Table:    "txwork.outbox",
		Leader:   true,
		Term:     3,
		Counts:   reaper.Counts{Requeued: 1, Failed: 2, PurgedDone: 3, PurgedFailed: 4, Swept: 5},
		Duration: time.Millisecond,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"tables":[{"table":"txwork.outbox","leader":true,"term":3,"requeued":1,"failed":2,"purged_done":3,` +
		`"purged_failed":4,"swept":5,"more":false,"duration":1000000,"skipped":0}],"more":false,"duration":1000000000}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDefaultInterval(t *testing.T) {
	t.Parallel()
	if reaper.DefaultInterval != 15*time.Second || workqueue.DefaultLease != 30*time.Second {
		t.Errorf("the reaper runs every %v over leases of %v, docs say 15s and 30s", reaper.DefaultInterval,
			workqueue.DefaultLease)
	}
}
