package jobs_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// redrives are the ways by which dead letters are redriven.
var redrives = map[string]func(f *fixture, ids ...uuid.UUID) []uuid.UUID{
	"Go in a transaction": func(f *fixture, ids ...uuid.UUID) (changed []uuid.UUID) {
		f.inTx(func(tx workqueue.Tx) (err error) {
			changed, err = f.client.Redrive(f.Context(), tx, "ann", ids...)
			return err
		})
		return changed
	},
	"Go": func(f *fixture, ids ...uuid.UUID) []uuid.UUID {
		changed, err := f.queue().Redrive(f.Context(), ids, "ann")
		f.ok(err)
		return changed
	},
	"SQL": func(f *fixture, ids ...uuid.UUID) []uuid.UUID {
		rows, err := f.Pool.Query(f.Context(), "SELECT id FROM "+f.table+"_redrive($1) WHERE changed", ids)
		f.ok(err)
		changed, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		f.ok(err)
		return changed
	},
}

// deaths are the ways by which a job that holds a key becomes a dead letter.
var deaths = map[string]func(f *fixture, id uuid.UUID){
	"failed": func(f *fixture, id uuid.UUID) { f.fail(id) },
	"cancelled": func(f *fixture, id uuid.UUID) {
		f.inTx(func(tx workqueue.Tx) error {
			_, err := f.client.Cancel(f.Context(), tx, "no", id)
			return err
		})
	},
	"used up": func(f *fixture, id uuid.UUID) {
		f.exec("UPDATE "+f.table+" SET max_attempts = 1 WHERE id = $1", id)
		f.claim(id)
		f.exec("UPDATE "+f.table+" SET locked_until = now() - interval '1 minute' WHERE id = $1", id)
		_, err := f.queue().ReapExpired(f.Context(), 10)
		f.ok(err)
	},
}

// A dead letter that is redriven holds its key as before, by whatever way it died and is redriven, and in each mode.
func TestARedrivenJobTakesItsKeyAgain(t *testing.T) {
	t.Parallel()
	for mode, u := range map[string]jobs.Unique{"until the end": {}, "until the start": {Until: jobs.UntilStart},
		"in turn": {Until: jobs.UntilStartInTurn}, "while failed": {While: jobs.WhileFailed}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newJobs(t)
			jobs.Declare(f.kinds, byAccount(u))
			for way, redrive := range redrives {
				for death, kill := range deaths {
					name := way + ", " + death
					first := f.enqueue(change{name, 1}).ID
					kill(f, first)
					equal(t, name+": status", f.get(first).Status, workqueue.Failed)
					equal(t, name+": redriven", slices.Equal(redrive(f, first), []uuid.UUID{first}), true)
					again := f.enqueue(change{name, 2})
					equal(t, name+": another", again, workqueue.Enqueued{ID: first, Duplicate: true})
					f.claim(first)
					third := f.enqueue(change{name, 3})
					equal(t, name+": free at the start", !third.Duplicate, u.Until != jobs.UntilEnd)
					f.exec("DELETE FROM " + f.table)
					f.fold()
				}
			}
		})
	}
}

// While another job holds the key, the dead letter stays one; when that has ended, it is redriven.
func TestADeadLetterWhoseKeyIsTakenStaysOne(t *testing.T) {
	t.Parallel()
	for mode, u := range map[string]jobs.Unique{"until the end": {}, "until the start": {Until: jobs.UntilStart},
		"while done": {While: jobs.WhileDone}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newJobs(t)
			jobs.Declare(f.kinds, byAccount(u))
			for way, redrive := range redrives {
				first := f.enqueue(change{way, 1}).ID
				f.fail(first)
				other := f.enqueue(change{way, 2}).ID
				equal(t, way+": beside the holder", len(redrive(f, first)), 0)
				equal(t, way+": still", f.get(first).Status, workqueue.Failed)
				f.ack(other)
				free := u.While == 0
				equal(t, way+": after the holder", len(redrive(f, first)) == 1, free)
				f.exec("DELETE FROM " + f.table)
			}
		})
	}
}

// Of the dead letters of one key, one redrive takes that which failed first, and all those of other keys and of none.
func TestOneDeadLetterOfAKeyIsRedriven(t *testing.T) {
	t.Parallel()
	for way, redrive := range redrives {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			f := newJobs(t)
			jobs.Declare(f.kinds, byAccount(jobs.Unique{}))
			jobs.Declare(f.kinds, jobs.KindOptions[mail]{})
			var all []uuid.UUID
			dead := func(args jobs.Args) uuid.UUID {
				id := f.enqueue(args).ID
				f.fail(id)
				all = append(all, id)
				return id
			}
			want := []uuid.UUID{dead(change{"a", 1}), dead(change{"b", 1}), dead(mail{"ann"}), dead(mail{"bob"})}
			left := []uuid.UUID{dead(change{"a", 2}), dead(change{"b", 2}), dead(change{"a", 3})}
			slices.Reverse(all)
			got := redrive(f, all...)
			byText := func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) }
			slices.SortFunc(got, byText)
			slices.SortFunc(want, byText)
			equal(t, "redriven", fmt.Sprint(got), fmt.Sprint(want))
			equal(t, "again", len(redrive(f, all...)), 0)
			for _, id := range left {
				equal(t, "left", f.get(id).Status, workqueue.Failed)
			}
			equal(t, "keys", ask[int](f, "SELECT count(unique_key) FROM "+f.table), 2)
		})
	}
}

// A redrive waits for a transaction that writes its key, and then leaves the dead letter alone or, in a transaction,
// says so. Others that want the key wait for the redrive.
func TestARedriveWaitsForWhoTakesTheKey(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		for _, commit := range []bool{true, false} {
			t.Run(fmt.Sprint("own ", own, " commit ", commit), func(t *testing.T) {
				t.Parallel()
				f := newJobs(t)
				jobs.Declare(f.kinds, byAccount(jobs.Unique{}))
				first := f.enqueue(change{"a", 1}).ID
				f.fail(first)
				type answer struct {
					ids []uuid.UUID
					err error
				}
				answers := make(chan answer, 1)
				err := pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) error {
					_, err := f.client.Enqueue(f.Context(), workqueue.Pgx(tx), jobs.Insert{Args: change{"a", 2}})
					f.ok(err)
					go func() {
						var a answer
						if own {
							a.ids, a.err = f.queue().Redrive(f.Context(), []uuid.UUID{first}, "ann")
						} else {
							a.err = f.try(func(tx workqueue.Tx) (err error) {
								a.ids, err = f.client.Redrive(f.Context(), tx, "ann", first)
								return err
							})
						}
						answers <- a
					}()
					f.until("the redrive waits", func() bool {
						return ask[bool](f, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "+
							"AND query LIKE '%freed_key%' AND query LIKE '%'||$1||'%'", f.Schema)
					})
					if commit {
						return nil
					}
					return errRollback
				})
				equal(t, "committed", !errors.Is(err, errRollback), commit)
				a := receive(t, answers)
				equal(t, "redriven", len(a.ids) == 1, !commit)
				if said := a.err != nil && strings.Contains(a.err.Error(), "redrive again"); said != (commit && !own) {
					t.Errorf("error: %v", a.err)
				}
				equal(t, "live", ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE completed_at IS NULL"), 1)
			})
		}
	}
}

// A job that was redriven is a holder like any other: a Replace turns it into the new job.
func TestARedrivenJobCanBeReplaced(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	jobs.Declare(f.kinds, byAccount(jobs.Unique{OnConflict: jobs.Replace}))
	first := f.enqueue(change{"a", 1}).ID
	f.fail(first)
	f.redrive(first)
	e := f.enqueue(change{"a", 2}, jobs.Insert{Delay: time.Hour})
	equal(t, "replaced", e.Replaced && e.ID == first, true)
	equal(t, "args", string(f.get(first).Args), `{"Account":"a","N":2}`)
}
