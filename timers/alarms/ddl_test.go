package alarms_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// The contract specifies every column with its type and default.
func TestTheTableIsThatOfTheContract(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	got := ask[string](f,
		`SELECT string_agg(concat_ws(' ', column_name, data_type, CASE is_nullable WHEN 'NO' THEN 'NOT NULL' END, 'DEFAULT ' || column_default), E'\n' ORDER BY ordinal_position)
		FROM information_schema.columns WHERE table_schema = $1 AND table_name = 'alarms'`, f.Schema)
	want := strings.Join([]string{
		"id uuid NOT NULL DEFAULT gen_random_uuid()",
		"owner_did text NOT NULL",
		"user_id text NOT NULL",
		"label text NOT NULL DEFAULT ''::text",
		"kind text NOT NULL",
		"fire_at timestamp with time zone",
		"cron_expr text NOT NULL DEFAULT ''::text",
		"timezone text NOT NULL DEFAULT 'UTC'::text",
		"next_fire_at timestamp with time zone NOT NULL",
		"conversation_id text NOT NULL DEFAULT ''::text",
		"wake_message text NOT NULL DEFAULT ''::text",
		"payload jsonb NOT NULL DEFAULT '{}'::jsonb",
		"status text NOT NULL DEFAULT 'active'::text",
		"idempotency_key text NOT NULL DEFAULT ''::text",
		"max_failures integer NOT NULL DEFAULT 5",
		"failure_count integer NOT NULL DEFAULT 0",
		"last_error text NOT NULL DEFAULT ''::text",
		"claimed_at timestamp with time zone",
		"created_at timestamp with time zone NOT NULL DEFAULT now()",
		"updated_at timestamp with time zone NOT NULL DEFAULT now()",
		"last_fired_at timestamp with time zone",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTheIndexesAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	for name, want := range map[string]string{
		"alarms_due_idx":         "(next_fire_at) WHERE (status = 'active'::text)",
		"alarms_owner_idx":       "(owner_did, created_at DESC)",
		"alarms_idempotency_idx": "(owner_did, idempotency_key) WHERE (idempotency_key <> ''::text)",
		"alarms_failing_idx": "(COALESCE(last_fired_at, created_at)) WHERE ((status = 'active'::text) AND (kind = " +
			"'cron'::text) AND (last_error <> ''::text))",
	} {
		got := ask[string](f, "SELECT indexdef FROM pg_indexes WHERE schemaname = $1 AND indexname = $2", f.Schema,
			name)
		if !strings.HasSuffix(got, want) || strings.Contains(got, "UNIQUE") != (name == "alarms_idempotency_idx") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestTheTableRefusesOtherKindsAndStates(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	f.create(once())
	for _, change := range []string{"kind = 'twice'", "status = 'lost'", "payload = NULL", "owner_did = NULL"} {
		if _, err := f.Pool.Exec(t.Context(), "UPDATE "+f.table+" SET "+change); err == nil {
			t.Errorf("%s: accepted", change)
		}
	}
}

func TestDDLComesAndGoes(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	up, down, err := alarms.DDL(f.Schema)
	if err != nil {
		t.Fatal(err)
	}
	f.exec(down)
	if n := ask[int](f,
		"SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace AND relname LIKE 'alarms%'",
		f.Schema); n > 0 {
		t.Errorf("%d objects are left", n)
	}
	f.exec(up)
	if _, _, err := alarms.DDL("Robert'); --"); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
