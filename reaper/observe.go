package reaper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/attribute"

	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/workqueue"
)

const (
	// countedRows bounds how many rows of a table are counted in each state.
	countedRows = 20_000

	// dueRows bounds how many due rows are counted if countedRows of them do not show all.
	dueRows = 50_000
	// recentDeadLetters is the age up to which a dead letter is recent.
	recentDeadLetters = time.Hour
	// overdueJoin is long enough for ten sweeps or more, each of which should have ended the join.
	overdueJoin = 10 * time.Minute
	// lookedJoins bounds how many joins of a table are examined.
	lookedJoins = 500
)

// A figure is the value of one gauge for one set of attributes.
type figure struct {
	gauge      string
	value      float64
	attributes []attribute.KeyValue
}

// An observer reads tables for gauges. Collections during an observation, or soon after it, share its result.
type observer struct {
	reader    survey.Reader
	schemas   []string // the first holds the leader table
	serves    func(*survey.Facts) bool
	timeout   time.Duration
	freshness time.Duration
	logger    *slog.Logger
	outage    func(error) bool // nil: the observer logs outages itself

	turn    chan struct{} // holds a token while no observation is running
	figures []figure
	at      time.Time
	failing bool
}

func newObserver(from connections, o GaugeOptions, schemas []string) *observer {
	ob := &observer{
		reader: survey.Reader{From: from, Limit: o.StatementTimeout}, serves: func(*survey.Facts) bool { return true },
		timeout: o.Timeout, freshness: o.Freshness, logger: o.Logger, turn: make(chan struct{}, 1),
	}
	for _, schema := range schemas {
		if !slices.Contains(ob.schemas, schema) {
			ob.schemas = append(ob.schemas, schema)
		}
	}
	ob.turn <- struct{}{}
	return ob
}

// latest returns the figures of a fresh observation. If the database does not answer, the only figure says so.
func (o *observer) latest(ctx context.Context) []figure {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	select {
	case <-o.turn:
		defer func() { o.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil
	}
	if o.at.IsZero() || time.Since(o.at) >= o.freshness {
		look := look{observer: o}
		err := o.reader.Together(ctx, func(r survey.Reader) error {
			look.reader = r
			return look.at(ctx)
		})
		o.note(err)
		if err != nil {
			look.figures = nil
		}
		look.add(upGauge, truth(err == nil))
		o.figures, o.at = look.figures, time.Now()
	}
	return o.figures
}

// note logs once that the database does not answer, and once that it answers again.
func (o *observer) note(err error) {
	if o.outage != nil && o.outage(err) {
		return
	}
	switch {
	case err != nil && !o.failing:
		o.logger.Warn("gauges cannot be observed", "error", explain(err))
	case err == nil && o.failing:
		o.logger.Info("gauges can be observed again")
	}
	o.failing = err != nil
}

// A look is an observation while it is being made.
type look struct {
	*observer
	reader  survey.Reader // whose reads share a transaction
	figures []figure
	skipped int
}

// at makes the observation. The error says why nothing could be observed.
func (l *look) at(ctx context.Context) error {
	start := time.Now()
	var tables []survey.Facts
	err := l.reader.Read(ctx, func(tx pgx.Tx) error {
		for _, schema := range l.schemas {
			found, err := survey.Tables(ctx, tx, schema, countedRows)
			if err != nil {
				return err
			}
			tables = append(tables, found...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	tables = slices.DeleteFunc(tables, func(f survey.Facts) bool { return !l.serves(&f) })
	for i := range tables {
		tables[i].DueRows = dueRows
		l.table(ctx, &tables[i])
	}
	for _, schema := range l.schemas {
		l.skip(l.log(ctx, schema))
	}
	l.skip(l.transactions(ctx))
	l.skip(l.leaders(ctx, tables))
	l.add(skippedGauge, float64(l.skipped))
	l.add(durationGauge, time.Since(start).Seconds())
	return nil
}

func (l *look) add(gauge string, value float64, attributes ...attribute.KeyValue) {
	l.figures = append(l.figures, figure{gauge, value, attributes})
}

// depth adds a number of rows in one state, and whether there may be more.
func (l *look) depth(rows int64, more bool, state string, of ...attribute.KeyValue) {
	of = append(slices.Clip(of), stateKey.String(state))
	l.add(depthGauge, float64(rows), of...)
	l.add(boundedGauge, truth(more), of...)
}

// skip counts a statement that failed.
func (l *look) skip(err error) {
	if err != nil {
		l.skipped++
	}
}

// table observes one table. After a statement that was given up because of a lock or its time limit, the other
// statements are skipped, because each would probably take as long.
func (l *look) table(ctx context.Context, f *survey.Facts) {
	name := tableKey.String(f.Schema + "." + f.Name)
	l.add(deadRowsGauge, float64(f.Dead), name)
	l.add(thresholdGauge, f.Threshold, name)
	l.add(liveRowsGauge, max(f.Live, 0), name)
	if f.Filtered {
		l.skipped++
	}
	steps := []func(context.Context, *survey.Facts, attribute.KeyValue) error{l.deadLetters, l.schedules}
	if !f.Schedule() {
		steps = append(steps, l.due, l.later, l.waiting, l.keys, l.topics, l.folds, l.joins)
	}
	for i, step := range steps {
		err := step(ctx, f, name)
		l.skip(err)
		if slow(err) || ctx.Err() != nil {
			l.skipped += len(steps) - i - 1
			return
		}
	}
}

// slow reports whether a statement was given up because it took too long, or waited too long for a lock.
func slow(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "57014" || pg.Code == "55P03")
}

func (l *look) due(ctx context.Context, f *survey.Facts, name attribute.KeyValue) error {
	heads, err := survey.Heads(ctx, l.reader, f, survey.Asked{Expired: workqueue.DefaultLease,
		Within: workqueue.DefaultRunsWithin})
	if err != nil {
		return err
	}
	if len(heads) >= survey.MaxLanes {
		l.skipped++
	}
	for _, h := range survey.ByFirst(heads) {
		lane := laneOf(f, h.Lane, name)
		l.depth(h.Ready, h.More, "ready", lane...)
		l.depth(h.Running, h.More, "in_progress", lane...)
		l.add(ageGauge, max(h.OldestReady, 0), append(lane, stateKey.String("ready"))...)
		l.add(ageGauge, max(h.OldestExpired, 0), append(lane, stateKey.String("expired"))...)
		l.add(ageGauge, max(h.Longest, 0), append(lane, stateKey.String("in_progress"))...)
		l.add(overrunGauge, float64(h.Expired), lane...)
		l.add(overdueGauge, float64(h.Overdue), lane...)
	}
	return nil
}

func (l *look) later(ctx context.Context, f *survey.Facts, name attribute.KeyValue) error {
	heads, err := survey.LaterRows(ctx, l.reader, f)
	if err != nil {
		return err
	}
	for _, h := range survey.ByFirst(heads) {
		l.depth(h.Seen, h.More, "scheduled", laneOf(f, h.Lane, name)...)
	}
	return nil
}

// laneOf returns the attributes of a lane: the table, and the value of the first lane column.
func laneOf(f *survey.Facts, lane []string, name attribute.KeyValue) []attribute.KeyValue {
	attributes := make([]attribute.KeyValue, 0, 3)
	attributes = append(attributes, name)
	if len(lane) > 0 && len(f.LaneNames) > 0 {
		attributes = append(attributes, attribute.String("txwork."+f.LaneNames[0], lane[0]))
	}
	return slices.Clip(attributes)
}

func (l *look) waiting(ctx context.Context, f *survey.Facts, name attribute.KeyValue) error {
	held, err := survey.HeldRows(ctx, l.reader, f, countedRows)
	if err == nil {
		l.depth(held.Rows, held.More, "waiting", name)
		l.add(ageGauge, held.Oldest, name, stateKey.String("waiting"))
	}
	return err
}

func (l *look) deadLetters(ctx context.Context, f *survey.Facts, name attribute.KeyValue) error {
	dead, err := survey.CountDeadLetters(ctx, l.reader, f, countedRows, recentDeadLetters)
	if err == nil {
		l.depth(dead.Rows, dead.More, "dead_letter", name)
		l.add(recentGauge, float64(dead.Recent), name)
	}
	return err
}

func (l *look) schedules(ctx context.Context, f *survey.Facts, name attribute.KeyValue) error {
	if !f.Schedule() {
		return nil
	}
	overdue, _, err := survey.OverdueSchedules(ctx, l.reader, f, 0, 1)
	if err != nil {
		return err
	}
	late := 0.0
	if len(overdue) > 0 {
		late = overdue[0].Late
	}
	l.add(latenessGauge, late, name)
	return nil
}

func (l *look) keys(ctx context.Context, f *survey.Facts, name attribute.KeyValue) error {
	if !f.Has("concurrency_key") {
		return nil
	}
	blockers, err := survey.Blockers(ctx, l.reader, f, 1, 1)
	if err != nil {
		return err
	}
	blocked := int64(0)
	if len(blockers) > 0 {
		blocked = blockers[0].Keys
	}
	l.add(blockedGauge, float64(blocked), name)
	return nil
}

func (l *look) topics(ctx context.Context, f *survey.Facts, name attribute.KeyValue) error {
	if !f.Has("aside") {
		return nil
	}
	longest, err := survey.LongestUnavailable(ctx, l.reader, f)
	if err == nil {
		l.add(unavailableGauge, max(longest, 0), name)
	}
	return err
}

func (l *look) folds(ctx context.Context, f *survey.Facts, name attribute.KeyValue) error {
	if !f.Has("concurrency_key") && !f.Has("joined") {
		return nil
	}
	note, err := survey.OldestNote(ctx, l.reader, f)
	if err != nil {
		return err
	}
	lag := 0.0
	if note != nil {
		lag = max(*note.Age, 0)
	}
	l.add(foldGauge, lag, name)
	return nil
}

func (l *look) joins(ctx context.Context, f *survey.Facts, name attribute.KeyValue) error {
	if !f.Has("joined") {
		return nil
	}
	stuck, _, err := survey.StuckJoins(ctx, l.reader, f, overdueJoin, lookedJoins, lookedJoins)
	if err == nil {
		l.add(joinGauge, float64(len(stuck)), name)
	}
	return err
}

// log observes the log of a schema, if it has one: whoever serves its parked messages does.
func (l *look) log(ctx context.Context, schema string) error {
	log, err := survey.LogOf(ctx, l.reader, schema)
	if err != nil || log == nil || !l.serves(&survey.Facts{Schema: schema, Name: log.Parked()}) {
		return err
	}
	if log.Filtered { // its functions refuse the role
		l.skipped++
		return nil
	}
	name := tableKey.String(schema + "." + log.Name)
	facts, err := survey.FactsOfLog(ctx, l.reader, log)
	if err != nil {
		return err
	}
	l.add(tickGauge, float64(facts.Tick), name)
	l.add(untickedGauge, facts.Unticked, name)
	l.add(keptGauge, facts.Oldest, name)
	l.add(sizeGauge, float64(facts.Bytes), name)
	l.add(scheduledGauge, float64(facts.Scheduled), name)
	l.add(lateGauge, facts.Overdue, name)
	restored, err := survey.IsRestored(ctx, l.reader, log)
	if l.skip(err); err == nil {
		l.add(restoredGauge, truth(restored), name)
	}
	all, err := survey.Subscriptions(ctx, l.reader, log)
	for _, s := range all {
		of := []attribute.KeyValue{name, subscriptionKey.String(s.Name)}
		n, more := s.Messages()
		l.add(lagGauge, float64(n), of...)
		l.add(lagBoundGauge, truth(more), of...)
		l.add(lagAgeGauge, s.Age(), of...)
		l.add(retainedGauge, float64(s.Retained()), of...)
		l.add(inHandGauge, float64(s.InHand()), of...)
		l.add(pausedGauge, truth(s.Paused), of...)
		var away float64
		if s.Rest != nil {
			away = s.Rest.Seconds
		}
		l.add(awayGauge, away, of...)
		l.addLanes(&s, of)
	}
	return err
}

// addLanes adds the lanes of a subscription that has several: one that is behind is not seen in their sums.
func (l *look) addLanes(s *survey.Subscription, of []attribute.KeyValue) {
	if len(s.Lanes) == 1 {
		return
	}
	for _, lane := range s.Lanes {
		of := append(slices.Clone(of), laneKey.String(strconv.Itoa(int(lane.Lane))))
		l.add(laneLagGauge, float64(lane.Messages), of...)
		l.add(laneAgeGauge, max(lane.Oldest, lane.Behind), of...)
		l.add(laneKeptGauge, float64(lane.Retained), of...)
	}
}

// truth is a condition as a figure.
func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// transactions observes what keeps vacuum from removing dead rows of the tables.
func (l *look) transactions(ctx context.Context) error {
	var holders []Holder
	var hidden int64
	err := l.reader.Read(ctx, func(tx pgx.Tx) (err error) {
		holders, hidden, err = Holders(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	var oldest time.Duration
	var horizon int64
	for _, h := range holders {
		if !h.CatalogOnly {
			oldest, horizon = max(oldest, h.Age), max(horizon, h.XminAge)
		}
	}
	l.add(transactionGauge, oldest.Seconds())
	l.add(horizonGauge, float64(horizon))
	l.add(hiddenGauge, float64(hidden))
	return nil
}

// leaders observes how long ago the tables were last maintained, and whether to the end. A schema without the leader
// table has no such figures.
func (l *look) leaders(ctx context.Context, tables []survey.Facts) error {
	leaders, err := survey.Leaders(ctx, l.reader, l.schemas[0])
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42P01" {
		return nil
	}
	for _, leader := range leaders {
		serves := func(f survey.Facts) bool { return f.Schema+"."+f.Name == leader.Table }
		if slices.ContainsFunc(tables, serves) {
			l.add(silenceGauge, max(leader.Ended, 0), tableKey.String(leader.Table))
			l.add(failingGauge, truth(leader.Problem != ""), tableKey.String(leader.Table))
		}
	}
	return err
}
