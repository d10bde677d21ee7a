package alarms_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

func TestAnAlarmIsWhatWasCreated(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	n := once()
	n.Label, n.ConversationID, n.IdempotencyKey, n.MaxFailures = "label", "conv", "key", 3
	n.Payload = json.RawMessage(`{"n": 1.50, "s": "é<&>", "list": [true, null]}`)
	before := f.clock()
	a := f.create(n)
	after := f.clock()

	if at := a.NextFireAt; at.Before(before.Add(time.Hour)) || at.After(after.Add(time.Hour)) || !a.FireAt.Equal(at) {
		t.Errorf("fires at %v, nominally %v; it was created in %v to %v", at, a.FireAt, before, after)
	}
	if a.OwnerDID != alice || a.UserID != aliceUser || a.Kind != alarms.KindOnce || a.Timezone != "UTC" ||
		a.Status != alarms.StatusActive ||
		a.Label != "label" || a.ConversationID != "conv" || a.WakeMessage != "go on" || a.IdempotencyKey != "key" ||
		a.MaxFailures != 3 ||
		a.FailureCount != 0 || a.LastError != "" || a.ClaimedAt != nil || a.LastFiredAt != nil ||
		a.CreatedAt.IsZero() || a.UpdatedAt.IsZero() {
		t.Errorf("got %+v", a)
	}
	if !sameJSON(t, a.Payload, n.Payload) {
		t.Errorf("payload %s", a.Payload)
	}
	if got := f.get(a.ID); !reflect.DeepEqual(got, a) {
		t.Errorf("GetAlarm says\n%+v, CreateAlarm said\n%+v", got, a)
	}
	if timer := f.timer(a.ID); !timer.ScheduledAt.Equal(a.NextFireAt) || timer.Topic != alarms.Topic ||
		timer.MaxAttempts != 3+alarms.MaxLostClaims {
		t.Errorf("timer %+v", timer)
	}
}

func TestASeriesBeginsAtTheFirstTimeInItsZone(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a := f.create(daily())
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	local := a.NextFireAt.In(zone)
	if local.Hour() != 9 || local.Minute() != 0 || !a.NextFireAt.After(a.CreatedAt) ||
		a.NextFireAt.Sub(a.CreatedAt) > 25*time.Hour || a.FireAt != nil {
		t.Errorf("created %v, fires %v", a.CreatedAt, local)
	}
	if a.MaxFailures != 5 || string(a.Payload) != "{}" {
		t.Errorf("got %+v", a)
	}
}

func TestPostingAKeyAgainReturnsTheAlarmThatIsThere(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	n := once()
	n.IdempotencyKey = "k"
	first := f.create(n)

	n.WakeMessage, n.Delay, n.FireAt = "another", 0, f.clock().Add(-time.Hour) // also when its time has passed
	again, deduped, err := f.store.CreateAlarm(t.Context(), n)
	if err != nil || !deduped || !reflect.DeepEqual(again, first) {
		t.Errorf("deduped %v, error %v, got %+v", deduped, err, again)
	}
	n.FireAt, n.Delay, n.OwnerDID, n.UserID = time.Time{}, time.Hour, bob, bobUser
	if other := f.create(n); other.ID == first.ID {
		t.Error("a key is its owner's own")
	}
	if _, err := f.store.CancelAlarm(t.Context(), first.ID, alice); err != nil {
		t.Fatal(err)
	}
	n.OwnerDID = alice
	if again, deduped, err := f.store.CreateAlarm(t.Context(), n); err != nil || !deduped ||
		again.Status != alarms.StatusCancelled {
		t.Errorf("an alarm that has ended holds its key: deduped %v, error %v, got %+v", deduped, err, again)
	}
	if n := ask[int](f, "SELECT count(*) FROM "+f.timers); n != 2 {
		t.Errorf("%d timers, want one for each alarm", n)
	}
}

func TestConcurrentPostsOfAKeyCreateOneAlarm(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	n := once()
	n.IdempotencyKey = "k"
	var mu sync.Mutex
	ids, created := map[string]bool{}, 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			a, deduped, err := f.store.CreateAlarm(t.Context(), n)
			mu.Lock()
			defer mu.Unlock()
			if ids[a.ID] = true; err != nil {
				t.Error(err)
			}
			if !deduped {
				created++
			}
		})
	}
	all.Wait()
	if len(ids) != 1 || created != 1 {
		t.Errorf("%d alarms, %d of them created", len(ids), created)
	}
}

func TestAListIsTheOwnersNewestFirstAndAtMost500(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	for i := range 3 {
		n := once()
		n.Label = fmt.Sprint(i)
		f.create(n)
	}
	other := once()
	other.OwnerDID, other.UserID = bob, bobUser
	f.create(other)
	labels := func(limit int) string {
		list, err := f.store.ListAlarms(t.Context(), alice, limit)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, a := range list {
			all = append(all, a.Label)
		}
		return strings.Join(all, " ")
	}
	if got := labels(0); got != "2 1 0" {
		t.Errorf("got %s", got)
	}
	if got := labels(2); got != "2 1" {
		t.Errorf("got %s", got)
	}
	f.exec("INSERT INTO " + f.table + " (owner_did, user_id, kind, next_fire_at, created_at) SELECT " +
		"'did:matrix:alice:01', 'alice', 'once', now() + interval '1 day', now() - interval '1 day' FROM " +
		"generate_series(1, 600)")
	if n := len(strings.Split(labels(1000), " ")); n != 500 {
		t.Errorf("%d alarms, want the 500 of the contract", n)
	}
	if n := len(strings.Split(labels(0), " ")); n != 100 {
		t.Errorf("%d alarms, want 100 where nobody says how many", n)
	}
}

func TestAnAlarmOfAnotherOwnerIsNotThere(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a := f.create(once())
	for _, id := range []string{a.ID, uuid.NewString(), "no uuid", "", "'; DROP TABLE alarms; --"} {
		if _, err := f.store.GetAlarm(t.Context(), id, bob); !errors.Is(err, workqueue.ErrNotFound) {
			t.Errorf("GetAlarm(%q): %v", id, err)
		}
		if _, err := f.store.CancelAlarm(t.Context(), id, bob); !errors.Is(err, workqueue.ErrNotFound) {
			t.Errorf("CancelAlarm(%q): %v", id, err)
		}
	}
	if got := f.get(a.ID); got.Status != alarms.StatusActive {
		t.Errorf("got %+v", got)
	}
}

func TestCancelIsIdempotentAndCancelsTheTimer(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a := f.create(once())
	first, err := f.store.CancelAlarm(t.Context(), a.ID, alice)
	if err != nil || first.Status != alarms.StatusCancelled || !first.UpdatedAt.After(a.UpdatedAt) {
		t.Fatalf("error %v, got %+v", err, first)
	}
	again, err := f.store.CancelAlarm(t.Context(), a.ID, alice)
	if err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("error %v, got %+v", err, again)
	}
	if timer := f.timer(a.ID); timer.Status != workqueue.Failed || timer.CancelledAt == nil {
		t.Errorf("timer %+v", timer)
	}
	f.exec("UPDATE "+f.table+" SET status = 'fired' WHERE id = $1", a.ID)
	if got, err := f.store.CancelAlarm(t.Context(), a.ID, alice); err != nil || got.Status != alarms.StatusFired {
		t.Errorf("an alarm that has fired stays so: error %v, got %+v", err, got)
	}
}

// The alarm and its timer are both written if the application's transaction commits, and neither otherwise.
func TestInAnApplicationsTransaction(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		for _, way := range []string{"pgx", "database/sql"} {
			t.Run(fmt.Sprint(way, " commit ", commit), func(t *testing.T) {
				t.Parallel()
				f := newAlarms(t)
				tx, end := f.begin(t, way)
				n := once()
				n.IdempotencyKey = "k"
				a, _, err := f.alarms.In(tx).CreateAlarm(t.Context(), n)
				if err != nil {
					t.Fatal(err)
				}
				if again, deduped, err := f.alarms.In(tx).CreateAlarm(t.Context(), n); err != nil || !deduped ||
					again.ID != a.ID {
					t.Errorf("deduped %v, error %v", deduped, err)
				}
				if list, err := f.alarms.In(tx).ListAlarms(t.Context(), alice, 0); err != nil || len(list) != 1 {
					t.Errorf("%d alarms, error %v", len(list), err)
				}
				if got, err := f.alarms.In(tx).CancelAlarm(t.Context(), a.ID, alice); err != nil ||
					got.Status != alarms.StatusCancelled {
					t.Errorf("error %v, got %+v", err, got)
				}
				end(commit)
				want := 0
				if commit {
					want = 1
				}
				if n, m := ask[int](f, "SELECT count(*) FROM "+f.table), ask[int](f, "SELECT count(*) FROM "+
					f.timers); n != want || m != want {
					t.Errorf("%d alarms and %d timers, want %d", n, m, want)
				}
			})
		}
	}
}

func (f *fixture) begin(t *testing.T, way string) (workqueue.Tx, func(commit bool)) {
	if way == "pgx" {
		tx, err := f.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return workqueue.Pgx(tx), func(commit bool) {
			finish(t, commit, func() error { return tx.Commit(t.Context()) },
				func() error { return tx.Rollback(t.Context()) })
		}
	}
	tx, err := f.SQL(t).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return workqueue.SQL(tx), func(commit bool) { finish(t, commit, tx.Commit, tx.Rollback) }
}

func finish(t *testing.T, commit bool, keep, drop func() error) {
	t.Helper()
	if commit {
		drop = keep
	}
	if err := drop(); err != nil {
		t.Fatal(err)
	}
}
