package log

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txwork/txwork/internal/header"
	"github.com/txwork/txwork/workqueue"
)

// ErrUnknownSubscription says that there is no such subscription, or not any more.
var ErrUnknownSubscription = errors.New("txwork: the subscription is unknown")

// A Database runs the statements of a [Reader]. It is a [workqueue.External].
type Database interface {
	Query(ctx context.Context, q workqueue.ExternalQuery) error
	Call(ctx context.Context, sql string, results ...any) error
}

// A Reader calls the functions of a log for one subscription.
type Reader struct {
	db                                    Database
	log, subscription                     string
	lease                                 time.Duration
	tick, fetch, settle, extend, giveBack string
	unavailable                           string
}

// NewReader makes a reader of the log in a schema. An empty schema is [workqueue.DefaultSchema].
func NewReader(db Database, schema, subscription string, lease time.Duration) *Reader {
	v := view{schema: cmp.Or(schema, workqueue.DefaultSchema)}
	return &Reader{db: db, log: v.Name(), subscription: subscription, lease: lease,
		tick: "CALL " + v.Named("tick"),
		fetch: "SELECT entry, seq, id, created_at, topic, key, headers, payload, attempts, upto, more, held, " +
			"unavailable_since, wait_seconds FROM " +
			v.Named("fetch") + "($1::text, $2::uuid, $3::bigint * interval '1 microsecond', $4::integer, " +
			strconv.Itoa(pageBytes) + ")",
		settle: "SELECT " + v.Named("settle") +
			"($1::text, $2::uuid, $3::bigint, $4::text::jsonb, $5::bigint * interval '1 microsecond', " +
			"$6::bigint[])",
		extend:   "SELECT " + v.Named("extend") + "($1::text, $2::uuid, $3::bigint * interval '1 microsecond')",
		giveBack: "SELECT " + v.Named("release") + "($1::text, $2::uuid)",
		unavailable: "SELECT result FROM " + v.Named("unavailable") +
			"($1::text, $2::uuid, $3::text)",
	}
}

// A Ticked is what a tick found.
type Ticked struct {
	Newest int64
	Stored bool
	// Keeper is the tick whose caller has promised to tick again, and Expects whether it still has to.
	Keeper  int64
	Expects bool
	// Announced are the subscriptions that want what a stored tick has seen, as it was announced.
	Announced string
}

// Tick stores a tick if there is news. The caller promises to tick again for so long, and then until it is not expected
// any more, in short intervals, unless it has noPromise.
func (r *Reader) Tick(ctx context.Context, promise time.Duration) (t Ticked, err error) {
	arg := ""
	if promise != noPromise {
		arg = fmt.Sprintf("promise => interval '%d microseconds'", promise.Microseconds())
	}
	var keeper *int64
	var announced *string
	err = r.db.Call(ctx, r.tick+"("+arg+")", &t.Newest, &t.Stored, &keeper, &t.Expects, &announced)
	t.Keeper, t.Announced = value(keeper), value(announced)
	return t, err
}

// A Read is a message as a page has it.
type Read struct {
	Seq        int64
	ID         uuid.UUID
	CreatedAt  time.Time
	Topic, Key string
	HasKey     bool // also an empty one, which plain SQL can write
	Headers    map[string]string
	Payload    []byte
}

// A Page is what a fetch returns.
type Page struct {
	Messages []Read
	Attempts int    // claims of the batch, less what was settled since
	Upto     int64  // settle up to here; 0: there is no page
	More     bool   // there may be another page at once
	Held     string // why there is none, although there are messages

	// The destination has been unavailable since: the page is its probe, or there is none, until somebody may probe it.
	UnavailableSince *time.Time
	Wait             time.Duration
}

// pageBytes is how many bytes of payloads a page may have, if it has more than one message.
const pageBytes = 4 << 20

// Fetch claims a lane, or goes on with that of the token. It returns at most n messages, and a few more if some share
// the last number.
func (r *Reader) Fetch(ctx context.Context, token uuid.UUID, n int) (p Page, err error) {
	var (
		entry         string
		seq           pgtype.Int8 // these take NULL, and allocate nothing for each message
		id            pgtype.UUID
		created       pgtype.Timestamptz
		topic, key    pgtype.Text
		headers, held *string
		payload       []byte
		attempts      *int64
		upto          *int64
		more          *bool
		since         *time.Time
		wait          *float64
	)
	into := []any{&entry, &seq, &id, &created, &topic, &key, &headers, &payload, &attempts, &upto, &more, &held, &since,
		&wait}
	err = r.db.Query(ctx, workqueue.ExternalQuery{
		SQL: r.fetch, Args: []any{r.subscription, token, r.lease.Microseconds(), n},
		Reset: func() { p = Page{} },
		Row: func(scan func(...any) error) error {
			payload = nil
			if err := scan(into...); err != nil {
				return err
			}
			if entry == "end" {
				p.Attempts, p.Upto, p.More, p.Held = int(value(attempts)), value(upto), value(more), value(held)
				p.UnavailableSince, p.Wait = since, seconds(value(wait))
				return nil
			}
			p.Messages = append(p.Messages, Read{Seq: seq.Int64, ID: id.Bytes, CreatedAt: created.Time,
				Topic: topic.String, Key: key.String, HasKey: key.Valid, Headers: header.Read(headers),
				Payload: given(payload)})
			return nil
		},
	})
	if less := func(a, b Read) int { return cmp.Compare(a.Seq, b.Seq) }; !slices.IsSortedFunc(p.Messages, less) {
		slices.SortStableFunc(p.Messages, less) // SQL promises no order without a sort, which all others would pay for
	}
	return p, r.explain(err)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// explain names the subscription that a function does not know.
func (r *Reader) explain(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "22023" && pg.ColumnName == "subscription" {
		return fmt.Errorf("%w: %s has no subscription %q: subscribe first, or correct the name", ErrUnknownSubscription,
			r.log, r.subscription)
	}
	return err
}

// A Failure is a message that is to be parked, as settle takes it.
type Failure struct {
	Seq     int64   `json:"seq"`
	Error   string  `json:"error,omitempty"`
	Delay   Seconds `json:"delay"`
	Outcome string  `json:"outcome,omitempty"` // empty: retry
}

// Seconds is a duration as settle takes it.
type Seconds time.Duration

// maxDelay is what settle takes: three years.
const maxDelay = 1e8*time.Second - time.Microsecond

// MarshalJSON writes a number without an exponent.
func (s Seconds) MarshalJSON() ([]byte, error) {
	d := min(max(time.Duration(s), 0), maxDelay)
	return strconv.AppendFloat(nil, d.Seconds(), 'f', 6, 64), nil
}

// What settle answers.
const (
	Settled  = "settled"
	Ended    = "ended"
	Repeated = "repeated"
	Lost     = "lost"
)

// Settle moves the position of the lane that the token holds, parks messages, and renews the lease. Numbers that are
// ahead of the position are settled, too.
func (r *Reader) Settle(ctx context.Context, token uuid.UUID, upto int64, failed []Failure, ahead []int64) (
	result string, err error) {
	list := []byte("[]")
	if len(failed) > 0 {
		if list, err = json.Marshal(failed); err != nil {
			return "", err
		}
	}
	err = r.ask(ctx, &result, false, r.settle, token, upto, string(list), r.lease.Microseconds(),
		append([]int64{}, ahead...))
	return result, err
}

// What unavailable answers. It may answer [Lost], too.
const (
	Began   = "began"
	Resting = "resting"
)

// Unavailable gives the lane back that the token holds, and makes the subscription rest.
func (r *Reader) Unavailable(ctx context.Context, token uuid.UUID, cause string) (result string, err error) {
	err = r.ask(ctx, &result, false, r.unavailable, token, cause)
	return result, err
}

// Extend renews the lease, and reports whether the token still holds a lane.
func (r *Reader) Extend(ctx context.Context, token uuid.UUID) (holds bool, err error) {
	err = r.ask(ctx, &holds, true, r.extend, token, r.lease.Microseconds())
	return holds, err
}

// Release gives the lane back that the token holds; nothing happens if it holds none.
func (r *Reader) Release(ctx context.Context, token uuid.UUID) error {
	var held bool
	return r.ask(ctx, &held, false, r.giveBack, token)
}

func (r *Reader) ask(ctx context.Context, answer any, renews bool, sql string, args ...any) error {
	return r.db.Query(ctx, workqueue.ExternalQuery{SQL: sql, Renews: renews,
		Args: append([]any{r.subscription}, args...), Row: func(scan func(...any) error) error { return scan(answer) }})
}
