package outbox_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

func (f *fixture) execLog(sql string, args ...any) {
	f.Helper()
	if _, err := f.Pool.Exec(f.Context(), strings.ReplaceAll(sql, "LOG", f.table), args...); err != nil {
		f.Fatal(err)
	}
}

// One subscription is made, changed, moved and removed, in transactions of each library, and listed in between.
func TestSubscriptionsByEachLibrary(t *testing.T) {
	t.Parallel()
	for _, w := range apptx.Libraries() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			f := newLog(t)
			ctx := t.Context()
			in := func(what string, do func(tx workqueue.Tx) error) {
				t.Helper()
				tx, end := w.Begin(f, f.DB)
				if err := do(tx); err != nil {
					end(false)
					t.Fatalf("%s: %v", what, err)
				}
				end(true)
			}
			in("subscribe", func(tx workqueue.Tx) error {
				return f.box.Subscribe(ctx, tx, outbox.Subscription{Name: "audit"})
			})
			in("subscribe with all fields", func(tx workqueue.Tx) error {
				return f.box.Subscribe(ctx, tx, outbox.Subscription{Name: "billing",
					Topics:  []string{"order.*", "paid"},
					Headers: map[string]string{"region": "eu"}, From: outbox.Beginning, Lanes: 2})
			})
			in("enqueue", func(tx workqueue.Tx) error {
				_, err := f.box.EnqueueMany(ctx, tx,
					outbox.Message{Topic: "order.new", Headers: map[string]string{"region": "eu"}},
					outbox.Message{Topic: "paid", Headers: map[string]string{"region": "us"}})
				return err
			})
			f.execLog("CALL LOG_tick()")

			all := f.list(w)
			if len(all) != 2 || all[0].Name != "audit" || all[0].Topics != nil || all[0].Headers != nil ||
				len(all[0].Lanes) != 1 || all[0].Lanes[0].Messages != 2 || all[0].Lanes[0].Retained == 0 ||
				all[0].Tick == 0 || all[0].Lanes[0].Oldest <= 0 || all[0].CreatedAt.IsZero() {
				t.Errorf("audit is listed as %+v", all)
			}
			b := all[1]
			if b.Name != "billing" || !slices.Equal(b.Topics, []string{"paid", "order.*"}) ||
				b.Headers["region"] != "eu" || len(b.Lanes) != 2 || b.Lanes[0].Messages+b.Lanes[1].Messages != 1 {
				t.Errorf("billing is listed as %+v", b)
			}

			var changed, again bool
			in("pause", func(tx workqueue.Tx) (err error) {
				if changed, err = f.box.PauseSubscription(ctx, tx, "audit"); err == nil {
					again, err = f.box.PauseSubscription(ctx, tx, "audit")
				}
				return err
			})
			if !changed || again || !f.list(w)[0].Paused {
				t.Errorf("paused: %t, then %t", changed, again)
			}
			in("resume", func(tx workqueue.Tx) (err error) {
				changed, err = f.box.ResumeSubscription(ctx, tx, "audit")
				return err
			})
			if !changed || f.list(w)[0].Paused {
				t.Error("the pause has not ended")
			}

			f.execLog("SELECT * FROM LOG_fetch('audit', $1, '1 minute', 1)", uuid.New())
			var moved []outbox.Moved
			in("change", func(tx workqueue.Tx) (err error) {
				moved, err = f.box.ChangeSubscription(ctx, tx, outbox.Subscription{Name: "audit",
					Topics: []string{"paid"}})
				return err
			})
			if len(moved) != 1 || !moved[0].Taken || f.list(w)[0].Lanes[0].Messages != 1 {
				t.Errorf("changed: %+v", moved)
			}
			in("cut", func(tx workqueue.Tx) (err error) {
				moved, err = f.box.Cut(ctx, tx, "audit", 0)
				return err
			})
			if len(moved) != 1 || moved[0].Lost != 1 || f.list(w)[0].Lost != 1 || f.list(w)[0].Lanes[0].Messages != 0 {
				t.Errorf("cut: %+v", moved)
			}
			in("cut before", func(tx workqueue.Tx) (err error) {
				moved, err = f.box.CutBefore(ctx, tx, "audit", time.Now())
				return err
			})
			if len(moved) != 0 {
				t.Errorf("cut where nothing is left: %+v", moved)
			}
			in("replay", func(tx workqueue.Tx) (err error) {
				moved, err = f.box.Replay(ctx, tx, "audit", outbox.At(time.Now().Add(-time.Hour)))
				return err
			})
			if len(moved) != 1 || moved[0].Lost != 0 || moved[0].Again != 1 || moved[0].More ||
				f.list(w)[0].Lanes[0].Messages != 1 {
				t.Errorf("replayed: %+v", moved)
			}
			in("change what is named", func(tx workqueue.Tx) (err error) {
				_, err = f.box.ChangeSubscription(ctx, tx, outbox.Subscription{Name: "audit",
					Headers: map[string]string{"region": "us"}})
				return err
			})
			if a := f.list(w)[0]; !slices.Equal(a.Topics, []string{"paid"}) || a.Headers["region"] != "us" {
				t.Errorf("with other headers: %+v", a)
			}
			in("change to all", func(tx workqueue.Tx) (err error) {
				_, err = f.box.ChangeSubscription(ctx, tx, outbox.Subscription{Name: "audit", Topics: []string{"*"},
					Headers: map[string]string{}})
				return err
			})
			if a := f.list(w)[0]; a.Topics != nil || a.Headers != nil {
				t.Errorf("with all topics and any headers: %+v", a)
			}
			var removed outbox.Unsubscribed
			in("unsubscribe", func(tx workqueue.Tx) (err error) {
				removed, err = f.box.Unsubscribe(ctx, tx, "billing", false)
				return err
			})
			if removed != (outbox.Unsubscribed{Lanes: 2, Lost: 1}) || len(f.list(w)) != 1 {
				t.Errorf("removed %+v", removed)
			}
			in("subscribe once more", func(tx workqueue.Tx) error {
				return f.box.Subscribe(ctx, tx, outbox.Subscription{Name: "billing"})
			})
			if b := f.list(w)[1]; b.Lost != 0 {
				t.Errorf("a new subscription has lost %d messages, those of its namesake", b.Lost)
			}
		})
	}
}

func (f *fixture) list(w apptx.Library) []outbox.SubscriptionInfo {
	f.Helper()
	tx, end := w.Begin(f, f.DB)
	defer end(false)
	all, err := f.box.Subscriptions(f.Context(), tx)
	if err != nil {
		f.Fatal(err)
	}
	return all
}

func TestRowsHaveNoSubscriptions(t *testing.T) {
	t.Parallel()
	box, err := outbox.Open(outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for what, call := range map[string]func() error{
		"subscribe": func() error { return box.Subscribe(ctx, nil, outbox.Subscription{Name: "s"}) },
		"change": func() error {
			_, err := box.ChangeSubscription(ctx, nil, outbox.Subscription{Name: "s"})
			return err
		},
		"pause":       func() error { _, err := box.PauseSubscription(ctx, nil, "s"); return err },
		"resume":      func() error { _, err := box.ResumeSubscription(ctx, nil, "s"); return err },
		"replay":      func() error { _, err := box.Replay(ctx, nil, "s", outbox.Now); return err },
		"cut":         func() error { _, err := box.Cut(ctx, nil, "s", time.Hour); return err },
		"cut before":  func() error { _, err := box.CutBefore(ctx, nil, "s", time.Now()); return err },
		"unsubscribe": func() error { _, err := box.Unsubscribe(ctx, nil, "s", true); return err },
		"list":        func() error { _, err := box.Subscriptions(ctx, nil); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "storage is Rows") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhatSubscriptionsRefuse(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	tx := func(do func(tx workqueue.Tx) error) error {
		tx, end := apptx.Libraries()[0].Begin(f, f.DB)
		defer end(false)
		return do(tx)
	}
	for want, call := range map[string]func(tx workqueue.Tx) error{
		"name must have": func(tx workqueue.Tx) error {
			return f.box.Subscribe(t.Context(), tx, outbox.Subscription{Name: "a:b"})
		},
		"topics must have 1": func(tx workqueue.Tx) error {
			return f.box.Subscribe(t.Context(), tx, outbox.Subscription{Name: "s", Topics: []string{}})
		},
		"lanes is -1": func(tx workqueue.Tx) error {
			return f.box.Subscribe(t.Context(), tx, outbox.Subscription{Name: "s", Lanes: -1})
		},
		"* alone is all": func(tx workqueue.Tx) error {
			return f.box.Subscribe(t.Context(), tx, outbox.Subscription{Name: "s", Topics: []string{"or*er"}})
		},
		"The latest start is outbox.Now": func(tx workqueue.Tx) error {
			return f.box.Subscribe(t.Context(), tx, outbox.Subscription{Name: "s",
				From: outbox.At(time.Now().Add(time.Hour))})
		},
		"lanes must be": func(tx workqueue.Tx) error {
			return f.box.Subscribe(t.Context(), tx, outbox.Subscription{Name: "s", Lanes: 65})
		},
		"from is -infinity": func(tx workqueue.Tx) error {
			_, err := f.box.ChangeSubscription(t.Context(), tx, outbox.Subscription{Name: "s", From: outbox.Beginning})
			return err
		},
		"not that of a subscription": func(tx workqueue.Tx) error {
			_, err := f.box.PauseSubscription(t.Context(), tx, "s")
			return err
		},
		"older_than must": func(tx workqueue.Tx) error {
			_, err := f.box.Cut(t.Context(), tx, "s", -time.Hour)
			return err
		},
	} {
		if err := tx(call); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
