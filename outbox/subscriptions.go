package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/outbox/internal/log"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// A Subscription reads the messages of a [Log], each of them once, in a place of its own.
type Subscription struct {
	// Name has 1 to 48 characters a-z, 0-9 and _.
	Name string

	// Topics are those of its messages, or beginnings of topics with a * at the end, such as "order.*". A * alone is
	// all topics. Default: all; in a change, as they are.
	Topics []string

	// Headers are those that its messages must have, beside any others. An empty map is none. Default: none; in a
	// change, as they are.
	Headers map[string]string

	// From is where it begins. Default: [Now].
	From Start

	// Lanes is how many consumers can read it at the same time, at most 64. Messages of one key are in one lane.
	// Default: 1; in a change, as they are.
	Lanes int

	// MaxAge and MaxMessages are its retention. A subscription whose messages are older, or behind which the log has
	// more messages, of whatever topic, passes over the oldest of them, as [Outbox.Cut] does, and logs a warning.
	// Whoever maintains the log sees to it, once the subscription is a minute or a tenth beyond. The age is at most 7
	// days, and messages that were rolled back count. Default: none, so that it keeps everything; in a change, as they
	// are, and a negative one is none.
	MaxAge      time.Duration
	MaxMessages int64
}

// A Start is a place of a log: [Now], [Beginning], or [At] a time.
type Start string

const (
	// Now is behind the newest tick. Messages that were committed since that tick are delivered, too.
	Now Start = ""

	// Beginning is the oldest message that is kept.
	Beginning Start = "-infinity"
)

// At is behind the newest tick until a time: no message that was committed since is left out, and some that were
// committed shortly before may be delivered.
func At(t time.Time) Start { return Start(t.UTC().Format(time.RFC3339Nano)) }

func (s Start) String() string {
	if s == Now {
		return "infinity"
	}
	return string(s)
}

// A Moved says where a lane of a subscription goes on.
type Moved struct {
	Lane  int
	Tick  int64 // behind what this tick has seen
	Done  int64 // and behind this number of the batch that follows, if that was settled in part
	Taken bool  // a consumer had a page in hand: its settle is lost
	Lost  int64 // messages that were passed over, which are recorded
	Again int64 // messages that it had settled and that a replay delivers again, of the first 100,000 of the log
	More  bool  // there may be more of these
}

// An Unsubscribed says what was removed with a subscription.
type Unsubscribed struct {
	Lanes int
	Live  int64 // parked messages that had not ended
	Dead  int64 // dead letters
	Lost  int64 // messages that it had not settled, or more: of its backlog only the beginning is read; recorded
}

// A SubscriptionInfo is a subscription, and how far it is behind.
type SubscriptionInfo struct {
	Name      string
	Topics    []string          // nil: all
	Headers   map[string]string // nil: any
	Paused    bool
	CreatedAt time.Time

	MaxAge      time.Duration // its retention; 0: none
	MaxMessages int64         // 0: none

	Live    int64         // parked messages that have not ended
	Dead    int64         // dead letters
	Lost    int64         // messages that it has passed over since it was made
	Tick    int64         // the newest tick of the log
	TickAge time.Duration // how old that is

	// UnavailableSince is since when a consumer has called the destination unavailable, and Cause what it said last. A
	// message probes it after RestsUntil. Both times are zero if it is not known to be unavailable.
	UnavailableSince, RestsUntil time.Time
	Cause                        string

	Lanes []LaneLag
}

// A LaneLag says how far a lane of a subscription is behind.
type LaneLag struct {
	Lane     int
	Messages int64         // that are not settled, among the next 10,000 of the log
	More     bool          // the log has others behind these
	Oldest   time.Duration // since the oldest of them was written
	InHand   bool          // a consumer has a page
	Attempts int           // claims of the batch in hand
	Retained int64         // bytes that are kept until the lane has passed them
}

// Subscribe makes a subscription of a log. It begins when tx commits. A name that is taken is refused. In SQL it is
// outbox_log_subscribe.
func (o *Outbox) Subscribe(ctx context.Context, tx workqueue.Tx, s Subscription) error {
	topics, headers, err := s.filter()
	if err != nil {
		return err
	}
	return o.onSubscription(ctx, tx, "subscribe", "$1::text, $2::text[], $3::text::jsonb, $4::text::timestamptz, "+
		"coalesce(nullif($5::integer, 0), 1), $6::bigint * interval '1 microsecond', $7::bigint", nil, s.Name, topics,
		headers, s.From.String(), s.Lanes, max(s.MaxAge.Microseconds(), 0), max(s.MaxMessages, 0))
}

// ChangeSubscription sets the topics, headers, lanes and retention of a subscription, of which nil and 0 stay as they
// are: the topic * is all topics, an empty map no headers, and a negative bound none. From is not changed: see
// [Outbox.Replay]. The change holds from what each lane has settled, which is returned. Consumers that have a page in
// hand lose it, and its messages are delivered again if they are still the subscription's. A change of nothing but the
// retention takes no page.
//
// Lanes can be changed while all lanes are at one place with nothing in hand, as they are after a Replay in the same
// transaction. In SQL it is outbox_log_change.
func (o *Outbox) ChangeSubscription(ctx context.Context, tx workqueue.Tx, s Subscription) ([]Moved, error) {
	if s.From != Now {
		return nil, validate.Errorf("from", "is %s, and a change moves nothing: leave it out, and call Replay", s.From)
	}
	topics, headers, err := s.filter()
	if err != nil {
		return nil, err
	}
	return o.moves(ctx, tx, "change", "$1::text, $2::text[], $3::text::jsonb, nullif($4::integer, 0), "+
		"$5::bigint * interval '1 microsecond', $6::bigint", nothingAgain, s.Name, topics, headers, s.Lanes,
		bound(s.MaxAge.Microseconds()), bound(s.MaxMessages))
}

// PauseSubscription stops a subscription when tx commits: consumers settle what they have in hand, and get nothing
// more. It reports whether the subscription was not paused before. In SQL it is outbox_log_pause.
func (o *Outbox) PauseSubscription(ctx context.Context, tx workqueue.Tx, name string) (changed bool, err error) {
	err = o.onSubscription(ctx, tx, "pause", "$1::text", []any{&changed}, name)
	return changed, err
}

// ResumeSubscription ends a pause, and a rest of the destination: the next messages try it. It reports whether there
// was one of them. In SQL it is outbox_log_resume.
func (o *Outbox) ResumeSubscription(ctx context.Context, tx workqueue.Tx, name string) (changed bool, err error) {
	err = o.onSubscription(ctx, tx, "resume", "$1::text", []any{&changed}, name)
	return changed, err
}

// Replay moves a subscription to a start. All since is delivered again, in order. If that is ahead of the subscription,
// the messages in between are lost to it, which is recorded. A start before what the log keeps, and one in the
// future, is refused.
//
// Consumers that have a page in hand lose it. Parked messages stay and run, and what is replayed of their keys is
// parked behind them. In SQL it is outbox_log_replay.
func (o *Outbox) Replay(ctx context.Context, tx workqueue.Tx, name string, start Start) ([]Moved, error) {
	return o.moves(ctx, tx, "replay", "$1::text, $2::text::timestamptz", "again, more", name, start.String())
}

// Cut lets a subscription pass over the messages that are older than an age and that it has not settled, so that the
// log need not keep them. How many that are is returned and recorded. Parked messages stay and run. It moves the lanes
// that are behind, and no others. An age beyond which the log has no tick cuts nothing: ticks are kept for as long as
// messages that all have passed. In SQL it is outbox_log_cut.
func (o *Outbox) Cut(ctx context.Context, tx workqueue.Tx, name string, olderThan time.Duration) ([]Moved, error) {
	return o.moves(ctx, tx, "cut", "$1::text, $2::float8 * interval '1 second'", nothingAgain, name,
		olderThan.Seconds())
}

// CutBefore is Cut with a time in place of an age. It goes by the newest tick until then.
func (o *Outbox) CutBefore(ctx context.Context, tx workqueue.Tx, name string, t time.Time) ([]Moved, error) {
	return o.moves(ctx, tx, "cut", "$1::text, before => $2::text::timestamptz", nothingAgain, name,
		string(At(t)))
}

// Unsubscribe removes a subscription. Consumers that have a page in hand lose it. A subscription with parked messages
// or dead letters is refused unless they are to be deleted, too. In SQL it is outbox_log_unsubscribe.
func (o *Outbox) Unsubscribe(ctx context.Context, tx workqueue.Tx, name string, deleteParked bool) (Unsubscribed,
	error) {
	var u Unsubscribed
	err := o.onSubscription(ctx, tx, "unsubscribe", "$1::text, $2::boolean", []any{&u.Lanes, &u.Live, &u.Dead, &u.Lost},
		name, deleteParked)
	return u, err
}

// Subscriptions returns the subscriptions of a log by name, and how far they are behind. In SQL it is outbox_log_lag.
func (o *Outbox) Subscriptions(ctx context.Context, tx workqueue.Tx) ([]SubscriptionInfo, error) {
	if err := o.refusesSubscriptions(); err != nil {
		return nil, err
	}
	var all []SubscriptionInfo
	err := o.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var i SubscriptionInfo
		var l LaneLag
		var topics, headers *string
		var age, oldest, maxAge float64
		var since, until *time.Time
		var cause *string
		err := scan(&i.Name, &topics, &headers, &i.Paused, &i.CreatedAt, &maxAge, &i.MaxMessages, &i.Live, &i.Dead,
			&i.Lost, &i.Tick, &age,
			&l.Lane, &l.Messages, &l.More, &oldest, &l.InHand, &l.Attempts, &l.Retained,
			&since, &until, &cause)
		if err != nil {
			return err
		}
		if len(all) == 0 || all[len(all)-1].Name != i.Name {
			i.TickAge, i.MaxAge = seconds(age), seconds(maxAge)
			if since != nil && until != nil && cause != nil {
				i.UnavailableSince, i.RestsUntil, i.Cause = *since, *until, *cause
			}
			if err := decode(topics, &i.Topics); err != nil {
				return err
			}
			if err := decode(headers, &i.Headers); err != nil {
				return err
			}
			all = append(all, i)
		}
		l.Oldest = seconds(oldest)
		last := &all[len(all)-1]
		last.Lanes = append(last.Lanes, l)
		return nil
	}, `SELECT s.name, CASE WHEN s.topics IS NOT NULL THEN
			array_to_json(s.topics || ARRAY(SELECT p || '*' FROM unnest(s.prefixes) AS p))::text END,
		s.headers::text, s.paused, s.created_at,
		coalesce(extract(epoch FROM s.max_age), 0)::float8, coalesce(s.max_messages, 0), l.live, l.dead,
		(SELECT coalesce(sum(o.messages), 0)::bigint FROM `+o.named("loss")+` AS o
			WHERE o.subscription = s.name AND o.at >= s.created_at),
		coalesce(l.tick, 0), coalesce(l.tick_seconds, 0), l.lane, l.messages, l.more, l.seconds, l.in_hand, l.attempts,
		l.retained, l.unavailable_since, l.rests_until, l.cause
		FROM `+o.named("lag")+`() AS l
		LEFT JOIN `+o.named("subscription")+` AS s ON s.name = l.subscription -- asks lag also where it sees none
		ORDER BY s.name, l.lane`)
	return all, err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func decode(text *string, into any) error {
	if text == nil {
		return nil
	}
	return json.Unmarshal([]byte(*text), into)
}

// bound is what a change makes of a retention: 0 leaves it as it is.
func bound(n int64) any {
	if n == 0 {
		return nil
	}
	return max(n, 0)
}

// filter encodes what selects messages: nil is all of them.
func (s Subscription) filter() (topics, headers any, err error) {
	if s.Lanes < 0 {
		return nil, nil, validate.Errorf("lanes", "is %d, it cannot be negative", s.Lanes)
	}
	if s.Topics != nil {
		topics = s.Topics
	}
	if s.Headers != nil {
		encoded, err := json.Marshal(s.Headers)
		if err != nil {
			return nil, nil, err
		}
		headers = string(encoded)
	}
	return topics, headers, nil
}

func (o *Outbox) named(suffix string) string { return log.Named(o.table.Spec().Schema, suffix) }

func (o *Outbox) refusesSubscriptions() error {
	if o.log == nil {
		return validate.Errorf("storage", "is Rows, and only a Log has subscriptions: a row has one destination")
	}
	return nil
}

// onSubscription calls a function that returns a row, or nothing.
func (o *Outbox) onSubscription(ctx context.Context, tx workqueue.Tx, verb, params string, into []any,
	args ...any) error {
	if err := o.refusesSubscriptions(); err != nil {
		return err
	}
	call := "SELECT * FROM " + o.named(verb) + "(" + params + ")"
	if into == nil {
		_, err := o.table.In(tx).Exec(ctx, call, args...)
		return hinted(err)
	}
	return hinted(o.table.In(tx).Query(ctx, func(scan func(...any) error) error { return scan(into...) }, call,
		args...))
}

// hinted adds to what a function refuses what it says should be done, in the words of this package.
func hinted(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.ColumnName == "" || pg.Hint == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, inGo.Replace(strings.TrimSuffix(pg.Hint, ".")))
}

var inGo = strings.NewReplacer("-infinity", "outbox.Beginning", "infinity", "outbox.Now",
	"parked => true", "deleteParked")

// nothingAgain is in place of the columns of a replay.
const nothingAgain = "0::bigint, false"

// moves calls a function that returns a row for each lane. Again selects what it says of messages that are delivered
// again.
func (o *Outbox) moves(ctx context.Context, tx workqueue.Tx, verb, params, again string, args ...any) ([]Moved, error) {
	if err := o.refusesSubscriptions(); err != nil {
		return nil, err
	}
	var all []Moved
	err := o.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var m Moved
		err := scan(&m.Lane, &m.Tick, &m.Done, &m.Taken, &m.Lost, &m.Again, &m.More)
		all = append(all, m)
		return err
	}, "SELECT lane, tick, done, taken, lost, "+again+" FROM "+o.named(verb)+"("+params+") ORDER BY lane", args...)
	return all, hinted(err)
}
