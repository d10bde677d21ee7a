package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

func TestABlockedKey(t *testing.T) {
	w := newWard(t)
	of := func(key string) outbox.Message { return outbox.Message{Topic: "ship", Key: key, Payload: []byte("{}")} }
	first := w.enqueue(of("order 17"))[0]
	w.enqueue(of("order 17"), of("order 17"))
	w.enqueue(of("order 18"), of("order 18"))
	w.fail("no such address", first)
	f := w.finds("blocked-key", []string{`key "order 17"`, first.String(), "2 rows behind it", "no such address",
		"txwork outbox unblock " + first.String()})
	if all := w.all("blocked-key"); len(all) != 1 {
		t.Errorf("findings %+v", all)
	}
	w.mends(f, nil)
}

// Of many blocked keys a few are shown, with their number.
func TestManyBlockedKeys(t *testing.T) {
	w := newWard(t)
	w.exec("SET session_replication_role = replica; INSERT INTO outbox (topic, payload, concurrency_key, key_seq, " +
		"key_limit, key_policy, waiting, status, attempts, completed_at, failed_at) SELECT 'ship', '{}', 'order ' || i / 2, i, " +
		"0, 1, i % 2 = 1, CASE i % 2 WHEN 0 THEN 3 ELSE 0 END, 1 - i % 2, CASE i % 2 WHEN 0 THEN now() END, CASE i % 2 " +
		"WHEN 0 THEN now() END FROM generate_series(0, 23) AS g (i); RESET session_replication_role")
	found := w.all("blocked-key")
	if len(found) != 5 || !strings.HasPrefix(found[0].Title, "outbox: 12 blocked keys, of which 5 are shown; key ") ||
		found[0].Evidence[0].Get("found") != int64(12) || strings.Contains(found[1].Title, "shown") {
		t.Errorf("findings %+v", found)
	}
}

func TestNotesThatNobodyFolds(t *testing.T) {
	w := newWard(t)
	w.enqueue(outbox.Message{Topic: "a", Key: "k", Payload: []byte("{}")})
	_, err := w.queue().Fold(t.Context())
	must(t, err)
	w.exec("INSERT INTO outbox_key_note (at, concurrency_key, limited) VALUES (now() - interval '5 minutes', 'k', false)")
	w.fixes(w.finds("fold-behind", []string{"outbox_key_note", "5 min"}), nil)
}

// A member was changed while triggers were disabled.
func TestAStuckJoin(t *testing.T) {
	w := newWard(t)
	var started outbox.Started
	w.in(func(tx workqueue.Tx) (err error) {
		started, err = w.box.StartJoin(t.Context(), tx, outbox.Join{Label: "checkout", Steps: messages("step", 3),
			OnComplete: &outbox.Message{Topic: "end", Payload: []byte("{}")}})
		return err
	})
	owner := workqueue.NewOwnerToken()
	_, err := w.queue().Claim(t.Context(), owner, time.Minute, 3)
	must(t, err)
	_, err = w.queue().Ack(t.Context(), owner, started.Steps[:1])
	must(t, err)
	w.exec(`SET session_replication_role = replica;
		UPDATE outbox SET status = 2, locked_until = NULL, completed_at = now() - interval '20 minutes' WHERE status = 1;
		RESET session_replication_role`)
	w.goneNow("stuck-join", nil) // too young
	w.exec("UPDATE outbox_join SET created_at = now() - interval '1 hour', look_at = now() - interval '1 second'")
	f := w.finds("stuck-join", []string{started.ID.String(), "checkout", "a member has ended and was not counted"})
	w.fixes(f, nil)
	if status := ask[int](w, "SELECT status FROM outbox_join"); status != 1 {
		t.Errorf("the join has status %d, want completed", status)
	}
}

func TestAJoinPastItsDeadline(t *testing.T) {
	w := newWard(t)
	var started outbox.Started
	w.in(func(tx workqueue.Tx) (err error) {
		started, err = w.box.StartJoin(t.Context(), tx, outbox.Join{Steps: messages("step", 1),
			Deadline: time.Now().Add(time.Hour)})
		return err
	})
	w.exec("UPDATE outbox_join SET created_at = now() - interval '2 hours', deadline = now() - interval '1 hour', " +
		"look_at = now() - interval '1 hour'")
	w.fixes(w.finds("stuck-join", []string{started.ID.String(), "its deadline has passed"}), nil)
}
