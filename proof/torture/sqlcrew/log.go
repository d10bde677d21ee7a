package sqlcrew

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A Reader reads a subscription of the log, one lane at a time, by the functions that docs/outbox.md publishes. All
// fields but InTransactions are required.
type Reader struct {
	Connect        *pgx.ConnConfig
	Schema         string
	Subscription   string
	Lease, Poll    time.Duration
	Page           int
	InTransactions bool

	Fetched, Settled func()
	// Handle handles a message. It is not called for those behind one that failed in its key.
	Handle func(context.Context, *Message) Outcome

	session session
	token   string
}

// A Message is a message of the log.
type Message struct {
	ID, Key string
	Payload []byte
	seq     int64
}

// A failure is an element of what outbox_log_settle takes.
type failure struct {
	Seq     int64   `json:"seq"`
	Error   string  `json:"error"`
	Delay   float64 `json:"delay"`
	Outcome string  `json:"outcome"`
}

// settlesEach is after how many messages a part of a page is settled.
const settlesEach = 10

// Run reads until ctx is cancelled. Then it settles what it has handled, and gives its lane back.
func (r *Reader) Run(ctx context.Context) {
	r.session.config, r.token = r.Connect, uuid.NewString()
	defer r.session.close()
	base := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		messages, upto, more, err := r.fetch(base)
		switch {
		case err != nil: // the token may have a lane, unless the server has refused it
			if refusal(err) != nil {
				r.token = uuid.NewString()
			}
			pause(ctx, errorPause, nil)
		case upto > 0:
			r.Fetched()
			r.page(ctx, messages, upto)
		case !more:
			pause(ctx, r.Poll/10, nil)
		}
	}
	_ = r.session.query(base, r.InTransactions, "SELECT "+r.Schema+".outbox_log_release($1, $2::uuid)",
		[]any{r.Subscription, r.token}, func(pgx.Rows) error { return nil })
}

// fetch ticks, and fetches a page.
func (r *Reader) fetch(ctx context.Context) (all []*Message, upto int64, more bool, err error) {
	err = r.session.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CALL "+r.Schema+".outbox_log_tick()")
		return err
	})
	if err != nil {
		return nil, 0, false, err
	}
	err = r.session.query(ctx, r.InTransactions, fmt.Sprintf("SELECT entry, seq, id::text, key, payload, upto, more "+
		"FROM %s.outbox_log_fetch($1, $2::uuid, $3::interval, $4) ORDER BY seq", r.Schema),
		[]any{r.Subscription, r.token, seconds(r.Lease), r.Page}, func(rows pgx.Rows) error {
			var entry string
			var seq, last *int64
			var id, key *string
			var payload []byte
			var again *bool
			if err := rows.Scan(&entry, &seq, &id, &key, &payload, &last, &again); err != nil {
				return err
			}
			switch {
			case entry == "row" && key == nil:
				all = append(all, &Message{*id, "", payload, *seq})
			case entry == "row":
				all = append(all, &Message{*id, *key, payload, *seq})
			case last != nil:
				upto, more = *last, *again
			}
			return nil
		})
	return all, upto, more, err
}

// page handles the messages of a page and settles them, in parts. After that the token is another one, unless the batch
// goes on.
func (r *Reader) page(ctx context.Context, messages []*Message, upto int64) {
	held, lose := context.WithCancel(context.WithoutCancel(ctx))
	defer lose()
	go r.extend(held, lose, r.token)
	var failed []failure
	blocked := map[string]bool{}
	for i, m := range messages {
		if held.Err() != nil { // another consumer has the lane
			r.token = uuid.NewString()
			return
		}
		if !blocked[m.Key] {
			switch o := r.handle(held, m); o.What {
			case "ack":
			case "unavailable":
				if i == 0 || r.settle(held, messages[i-1].seq, failed) {
					r.unavailable(held, o.Error)
				}
				return
			default:
				failed = append(failed, failure{m.seq, o.Error, o.Delay.Seconds(), o.What})
				blocked[m.Key] = m.Key != ""
			}
		}
		if stops := ctx.Err() != nil; stops || (i+1)%settlesEach == 0 && i+1 < len(messages) {
			if !r.settle(held, m.seq, failed) {
				return
			}
			if failed = nil; stops {
				return
			}
		}
	}
	r.settle(held, upto, failed)
}

// unavailable gives the lane back. If that fails, its lease ends.
func (r *Reader) unavailable(ctx context.Context, cause string) {
	_ = r.session.query(context.WithoutCancel(ctx), r.InTransactions, "SELECT result FROM "+r.Schema+
		".outbox_log_unavailable($1, $2::uuid, $3)", []any{r.Subscription, r.token, cause},
		func(pgx.Rows) error { return nil })
	r.token = uuid.NewString()
}

func (r *Reader) handle(ctx context.Context, m *Message) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			o = Outcome{What: "retry", Delay: errorPause, Error: fmt.Sprint("panic: ", p)}
		}
	}()
	return r.Handle(ctx, m)
}

// extend renews the lease until ctx is cancelled, and calls lose when the lane is lost.
func (r *Reader) extend(ctx context.Context, lose context.CancelFunc, token string) {
	s := &session{config: r.Connect}
	defer s.close()
	for pause(ctx, r.Lease/3, nil); ctx.Err() == nil; pause(ctx, r.Lease/3, nil) {
		err := s.query(ctx, false, "SELECT "+r.Schema+".outbox_log_extend($1, $2::uuid, $3::interval)",
			[]any{r.Subscription, token, seconds(r.Lease)}, func(rows pgx.Rows) error {
				var holds bool
				err := rows.Scan(&holds)
				if err == nil && !holds {
					lose()
				}
				return err
			})
		_ = err // the next time, or the settle is lost
	}
}

// settle repeats a settle until it is answered: an answer that was lost is given again. It gives up when another
// consumer should have the lane. It reports whether the token may still hold the lane: if not, it takes another one.
func (r *Reader) settle(ctx context.Context, upto int64, failed []failure) (holds bool) {
	ctx = context.WithoutCancel(ctx)
	if failed == nil {
		failed = []failure{}
	}
	list, err := json.Marshal(failed)
	if err != nil {
		panic(err) // cannot fail for texts and numbers
	}
	var result string
	for end := time.Now().Add(2 * r.Lease); time.Now().Before(end); time.Sleep(errorPause) {
		err := r.session.query(ctx, r.InTransactions, fmt.Sprintf("SELECT %s.outbox_log_settle($1, $2::uuid, $3, "+
			"$4::jsonb, $5::interval)", r.Schema), []any{r.Subscription, r.token, upto, string(list), seconds(r.Lease)},
			func(rows pgx.Rows) error { return rows.Scan(&result) })
		if err == nil {
			r.Settled()
			if holds = result == "settled" || result == "repeated"; holds {
				return true
			}
			break
		}
	}
	r.token = uuid.NewString()
	return false
}
