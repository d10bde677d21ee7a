package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/postgres"
)

// defaultHearing is long enough to tell whether an announcer is at work: a busy one notifies up to 500 times a second.
const defaultHearing = 2 * time.Second

// announcerState says who notifies the workers of a table: an announcer, or the producers themselves.
type announcerState struct {
	Table         string   `json:"table"`                   // with its schema
	Awake         bool     `json:"awake"`                   // a session notifies for the producers
	PID           uint32   `json:"pid,omitempty"`           // process id of that session
	Application   string   `json:"application,omitempty"`   // the application_name of that session
	AwakeSeconds  *float64 `json:"awake_seconds,omitempty"` // age of that session; missing if the role may not see it
	Announcements int      `json:"announcements"`           // notifications of that session
	Notifications int      `json:"notifications"`           // notifications of other sessions: of producers that are not silent
}

// hearing is what was heard on the tables' channels, and for how long.
type hearing struct {
	Seconds float64          `json:"seconds"`    // for how long it listened
	Tables  []announcerState `json:"announcers"` // one for each table
}

func (h hearing) rate(n int) string { return fmt.Sprintf("%.1f", float64(n)/max(h.Seconds, 0.001)) }

// hear listens on the tables' channels for the given duration, or until ctx ends, to find out who notifies the workers.
func (d *database) hear(ctx context.Context, names []string, during time.Duration) (h hearing, err error) {
	tables, err := d.tables(ctx, names...)
	if err != nil {
		return h, err
	}
	pooled, err := d.Pool.Acquire(ctx)
	if err != nil {
		return h, err
	}
	e := &ear{conn: pooled.Hijack(), heard: map[source]int{}} // never pooled again, since it has listened
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), during+10*time.Second)
	defer cancel()
	defer e.conn.Close(limit)
	for _, t := range tables {
		if _, err := e.conn.Exec(ctx, "LISTEN "+pgx.Identifier{t.Name()}.Sanitize()); err != nil {
			return h, err
		}
		e.channels = append(e.channels, t.Name())
	}
	begun := time.Now()
	before, err := e.announcers(limit)
	if err != nil {
		return h, err
	}
	window, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	if err := e.listen(window); err != nil {
		return h, err
	}
	after, err := e.announcers(limit) // the reply arrives after every notification committed before it
	if err != nil {
		return h, err
	}
	if err := e.listen(window); err != nil {
		return h, err
	}
	return hearing{time.Since(begun).Seconds(), e.states(before, after)}, nil
}

// An ear is a session that listens on the tables' channels. A channel has the name of its table.
type ear struct {
	conn     *pgx.Conn
	channels []string
	heard    map[source]int
}

// A source is a session that notifies.
type source struct {
	channel string
	pid     uint32
}

// announcers returns the sessions that hold an announcer's lock, by channel.
func (e *ear) announcers(ctx context.Context) (map[string]announcerState, error) {
	rows, err := e.conn.Query(ctx, `
		SELECT t.name AS "table", true AS awake, l.pid::bigint AS pid, coalesce(a.application_name, '') AS application,
			extract(epoch FROM clock_timestamp() - a.backend_start)::float8 AS awake_seconds
		FROM unnest($1::text[]) AS t (name)
		CROSS JOIN hashtextextended(t.name || ' announcer', 0) AS k (lock)
		JOIN pg_locks AS l ON l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.mode = 'ExclusiveLock'
			AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
			AND l.classid = (k.lock >> 32 & 4294967295)::oid AND l.objid = (k.lock & 4294967295)::oid
		LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid`, e.channels)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[announcerState])
	by := make(map[string]announcerState, len(all))
	for _, a := range all {
		by[a.Table] = a
	}
	return by, err
}

// listen counts the notifications that announce rows, until ctx ends.
func (e *ear) listen(ctx context.Context) error {
	for {
		n, err := e.conn.WaitForNotification(ctx)
		switch {
		case err != nil && ctx.Err() != nil && !e.conn.IsClosed():
			return nil
		case err != nil:
			return err
		case n.Payload != "cancel" && n.Payload != "upkeep":
			e.heard[source{n.Channel, n.PID}]++
		}
	}
}

// states reports for each table who announces its rows now, and what was heard. Another session may have become the
// announcer while hear listened, so the notifications of both count as announcements.
func (e *ear) states(before, after map[string]announcerState) (all []announcerState) {
	for _, channel := range e.channels {
		s := after[channel]
		s.Table = channel
		for from, n := range e.heard {
			switch {
			case from.channel != channel:
			case from.pid == before[channel].PID, from.pid == s.PID:
				s.Announcements += n
			default:
				s.Notifications += n
			}
		}
		all = append(all, s)
	}
	return all
}

func (a *app) showAnnouncers(ctx context.Context, d *database, names []string, during time.Duration,
	asJSON bool) error {
	h, err := d.hear(ctx, names, during)
	switch {
	case err != nil:
		return explain(err)
	case asJSON:
		return a.printJSON(h)
	}
	return a.printAnnouncers(h)
}

func (a *app) printAnnouncers(h hearing) error {
	g := newGrid(a.stdout, "TABLE", "ANNOUNCER", "SESSION", "APPLICATION", "SINCE", "ANNOUNCEMENTS/S",
		"OTHER NOTIFICATIONS/S")
	for _, s := range h.Tables {
		state, pid, since := "asleep", "-", "-"
		if s.Awake {
			state, pid = "awake", fmt.Sprint(s.PID)
		}
		if s.AwakeSeconds != nil {
			since = rough(postgres.Seconds(*s.AwakeSeconds))
		}
		g.add(s.Table, state, pid, dashed(s.Application), since, h.rate(s.Announcements), h.rate(s.Notifications))
	}
	return g.flush()
}
