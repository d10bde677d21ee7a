package webui

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/survey"
)

const (
	readingsAnExamination = 6  // how many readings the doctor's findings are shown for
	restAfterReading      = 50 // times as long as a reading took: reading takes at most a fiftieth of the time

	readingLimit = 30 * time.Second // of a reading as a whole
	patience     = 3 * time.Second  // of a page without figures
	stale        = time.Minute      // from this age on a page waits for new figures instead of showing these

	// depthRows is how many rows of a table are counted in each state but those of due rows; more are shown as at least
	// so many. In a large table each is on a page of its own.
	depthRows    = 2000
	maxProcesses = 500
	recent       = time.Hour // dead letters of this age are counted apart
)

// figures are what the overview shows of all tables. One reading serves all viewers. It begins when a page asks for
// figures that are older than that, and goes on without it; nothing is read while nobody looks, and less often where a
// reading takes long.
type figures struct {
	every time.Duration // a reading, while somebody looks
	read  func(ctx context.Context, before *reading, publish func(*reading))

	mu      sync.Mutex
	term    int // grows with forget: a reading that began before is not published
	last    *reading
	busy    bool          // a reading is under way
	changed chan struct{} // closed when last changes
}

// A reading is what was read of all tables at one moment.
type reading struct {
	At     time.Time // when it began, by this machine's clock
	Took   time.Duration
	Old    bool // an action has changed something since
	Tables []tableFigures
	Err    error // why nothing could be read

	Hour   []historyLine // the last hour of each table
	NoHour string        // why it could not be read

	Processes   []operate.Process
	NoProcesses string // why they could not be read

	Report     doctor.Report
	Problem    string // why the doctor could not look
	ExaminedAt time.Time
}

// tableFigures are those of a table.
type tableFigures struct {
	Name       string
	By         string // the column whose values are its parts
	Divided    bool   // these are the figures of some parts
	Schedule   bool
	Whole      operate.Part
	Parts      []operate.Part
	Cut        bool // there may be more parts
	Topics     []survey.Topic
	MoreTopics bool // there may be more of them
	HasTopics  bool // they can be paused
	Lanes      bool // each consumer has topics of its own
	Held       survey.Held
	Dead       survey.DeadLetters
	Filtered   bool     // row-level security hides rows
	Problems   []string // why the figures lack something
}

// now returns the last reading, which may be refreshing, and nil if there is none yet. It waits a little if there is
// none that is worth showing.
func (f *figures) now(ctx context.Context) (*reading, error) {
	last, changed := f.begin()
	if last.older(stale) {
		select {
		case <-changed:
		case <-time.After(patience):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		last = f.seen()
	}
	if last == nil {
		return nil, nil
	}
	return last, last.Err
}

// begin begins a reading unless the last is new enough or one is under way.
func (f *figures) begin() (last *reading, changed chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	if !f.busy && f.last.older(f.interval()) {
		f.start()
	}
	return f.last, f.changed
}

// interval is how old the last reading becomes before the next. The caller holds the lock.
func (f *figures) interval() time.Duration {
	if f.last == nil {
		return f.every
	}
	return max(f.every, min(restAfterReading*f.last.Took, stale))
}

// start begins a reading. The caller holds the lock.
func (f *figures) start() {
	f.busy = true
	go f.refresh(f.last, f.term)
}

// older tells whether a reading is no longer worth having from an age on.
func (r *reading) older(age time.Duration) bool {
	return r == nil || r.Err != nil || r.Old || time.Since(r.At) >= age
}

// next returns what is closed when the figures change again.
func (f *figures) next() chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

func (f *figures) refresh(before *reading, term int) {
	ctx, cancel := context.WithTimeout(context.Background(), readingLimit)
	defer cancel()
	f.read(ctx, before, func(next *reading) { f.publish(next, term) })
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy = false; term != f.term { // a page may wait for what an action has changed meanwhile
		f.start()
	}
}

func (f *figures) publish(next *reading, term int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if term != f.term {
		return
	}
	f.last = next
	close(f.changed)
	f.changed = make(chan struct{})
}

// forget makes the next page wait for new figures: an action has changed them. What the doctor found is kept.
func (f *figures) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.term++
	if f.last != nil {
		last := *f.last
		last.Old = true
		f.last = &last
	}
}

// seen returns the last reading, or nil.
func (f *figures) seen() *reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// reader reads for package survey.
func (h *handler) reader() survey.Reader {
	return survey.Reader{From: h.Pool, Limit: h.StatementTimeout}
}

// facts returns the tables of the schema, or those with the given names, as the catalog has them.
func (h *handler) facts(ctx context.Context, names ...string) ([]survey.Facts, error) {
	return h.factsBy(ctx, h.reader(), names...)
}

func (h *handler) factsBy(ctx context.Context, r survey.Reader, names ...string) (all []survey.Facts, err error) {
	err = r.Read(ctx, func(tx pgx.Tx) error {
		all, err = survey.Tables(ctx, tx, h.Schema, depthRows, names...)
		return err
	})
	return all, err
}

// readFigures publishes the figures of all tables before it has the doctor look, which takes longer.
func (h *handler) readFigures(ctx context.Context, before *reading, publish func(*reading)) {
	next := &reading{At: time.Now()}
	err := h.reader().Together(ctx, func(r survey.Reader) error { return h.readTables(ctx, r, next) })
	if err != nil {
		next.Err = err
		publish(next)
		return
	}
	next.Took = time.Since(next.At)
	if before != nil {
		next.Report, next.Problem, next.ExaminedAt = before.Report, before.Problem, before.ExaminedAt
	}
	publish(next)
	if time.Since(next.ExaminedAt) < readingsAnExamination*h.Refresh {
		return
	}
	examined := *next
	examined.Problem = ""
	if examined.Report, err = doctor.Examine(ctx, h.Pool, doctor.Options{Schema: h.Schema}); err != nil {
		examined.Problem = h.explain(ctx, "findings", err).Error()
	}
	examined.ExaminedAt = time.Now()
	publish(&examined)
}

// readTables adds the figures of all tables, and the processes. An error says why nothing could be read.
func (h *handler) readTables(ctx context.Context, r survey.Reader, next *reading) (err error) {
	all, err := h.factsBy(ctx, r)
	if err != nil {
		return err
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
		next.Tables = append(next.Tables, h.tableFigures(ctx, r, &all[i]))
	}
	if next.Hour, _, err = h.linesBy(ctx, r, names, "", spans[0]); err != nil {
		next.NoHour = h.explain(ctx, "history", err).Error()
	}
	if next.Processes, err = operate.ReadProcesses(ctx, r, h.Schema, maxProcesses); err != nil {
		next.NoProcesses = h.explain(ctx, "processes", err).Error()
	}
	return nil
}

func (h *handler) tableFigures(ctx context.Context, r survey.Reader, t *survey.Facts) tableFigures {
	f := tableFigures{Name: t.Name, By: dividedBy(t), Schedule: t.Schedule(), Filtered: t.Filtered,
		HasTopics: t.Has("aside"), Lanes: t.Has("consumer")}
	var errs [4]error
	f.Parts, f.Cut, errs[0] = operate.Parts(ctx, r, t)
	f.Whole = operate.Whole(t, f.Parts)
	f.Held, errs[1] = survey.HeldRows(ctx, r, t, depthRows)
	f.Dead, errs[2] = survey.CountDeadLetters(ctx, r, t, depthRows, recent)
	f.Topics, f.MoreTopics, errs[3] = survey.Topics(ctx, r, t)
	for _, err := range errs {
		if err == nil {
			continue
		}
		if text := h.explain(ctx, "figures of "+t.Name, err).Error(); !slices.Contains(f.Problems, text) {
			f.Problems = append(f.Problems, text)
		}
	}
	return f
}

// shown returns the figures of a table as far as the user sees it, and whether it does.
func (r *request) shown(f tableFigures) (tableFigures, bool) {
	among := r.among(f.Name)
	if among == nil {
		return f, true
	}
	of := tableFigures{Name: f.Name, By: f.By, Divided: true, Cut: f.Cut, HasTopics: f.HasTopics, Lanes: f.Lanes,
		MoreTopics: f.MoreTopics, Filtered: f.Filtered, Problems: f.Problems}
	for _, p := range f.Parts {
		if p.By == f.By && has(among, p.Name) {
			of.Parts = append(of.Parts, p)
		}
	}
	of.Whole = operate.Sum(f.Name, f.Filtered || f.Cut, of.Parts)
	for _, t := range f.Topics {
		if f.Lanes && has(among, t.Lane) || f.By == "topic" && has(among, t.Topic) {
			of.Topics = append(of.Topics, t)
		}
	}
	return of, len(among) > 0
}

// of returns the figures of a table.
func (r *reading) of(table string) (f tableFigures, ok bool) {
	if r == nil {
		return f, false
	}
	for _, t := range r.Tables {
		if t.Name == table {
			return t, true
		}
	}
	return f, false
}
