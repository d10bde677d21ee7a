package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// topStates are the states whose rows top can list, in the order in which the keys step through them.
var topStates = []string{"ready", "scheduled", "in_progress", "expired", "waiting", "failed", "done"}

// A topModel is what the screen shows. Keys and the results of commands change it. It knows nothing of terminals.
type topModel struct {
	db     *database
	reader *topReader

	frame   *topFrame
	rows    *topPage   // rows of one item, shown instead of the frame
	detail  []string   // lines of one row, shown instead of the rows
	scroll  int        // lines of the detail above the screen
	help    bool       // the help is shown instead of everything else
	cursor  string     // the item under the cursor
	asking  *topAsking // a question that waits for y
	message string     // result of the last command
	trouble string     // why the frame is not refreshed
	paused  bool       // frames are not refreshed
	quit    bool
	height  int
}

// A topPage is the rows of one state that belong to an item.
type topPage struct {
	title  string
	table  string
	filter operate.Filter
	state  string
	after  []string // the positions at which the pages so far begin; this page begins at the last
	page   *operate.Page
}

// A topAsking is a question, and the command that y runs.
type topAsking struct {
	question string
	command  topCommand
}

// A topCommand works on the database, and returns how its result changes the model. It may report its progress with
// tell.
type topCommand func(ctx context.Context, tell func(string)) topChange

// A topChange changes the model. The loop applies it between two keys.
type topChange func(*topModel)

// say returns a change that only shows a message.
func say(format string, args ...any) topChange {
	text := harmless(fmt.Sprintf(format, args...))
	return func(m *topModel) { m.message = text }
}

func failed(err error) topChange {
	return say("%s", strings.TrimPrefix(explain(err).Error(), "txwork: "))
}

// refresh reads the next frame. If the database cannot be reached, the last frame stays.
func (m *topModel) refresh(ctx context.Context, _ func(string)) topChange {
	f, err := m.reader.read(ctx)
	return func(m *topModel) {
		if err != nil {
			m.trouble = harmless(strings.TrimPrefix(explain(err).Error(), "txwork: "))
			return
		}
		m.frame, m.trouble = f, ""
		if !slices.Contains(m.items(), m.cursor) {
			m.move(0)
		}
	}
}

// thenRefresh runs a command and then reads a frame, so that the frame shows what the command did.
func (m *topModel) thenRefresh(command topCommand) topCommand {
	return func(ctx context.Context, tell func(string)) topChange {
		change := command(ctx, tell)
		news := m.refresh(ctx, tell)
		return func(m *topModel) {
			news(m)
			change(m)
		}
	}
}

// topKeys are the keys that the help lists, in this order.
var topKeys = [][2]string{
	{"↑ ↓ or k j", "move"},
	{"enter", "rows of the queue, topic or error; then all of one row"},
	{"esc", "back"},
	{"← →", "rows of another state"},
	{"n b", "next page, page before"},
	{"p", "pause the queue of jobs or the topic, or resume it"},
	{"r", "redrive the dead letters of the queue, topic or error, or the row; counts first, and asks"},
	{"space", "stop the clock, or go on"},
	{"? or h", "this help"},
	{"q", "quit"},
}

// key handles a key. It returns the command to run, or nil.
func (m *topModel) key(key string) topCommand {
	if key == "ctrl-c" {
		m.quit = true
		return nil
	}
	if m.asking != nil {
		return m.answer(key)
	}
	m.message = ""
	if command, known := keyCommands[key]; known {
		return command(m)
	}
	if change, known := keyChanges[key]; known {
		change(m)
	}
	return nil
}

// keyCommands are the keys that may read or change the database.
var keyCommands = map[string]func(*topModel) topCommand{
	"enter": (*topModel).enter,
	"left":  func(m *topModel) topCommand { return m.turn(-1) },
	"right": func(m *topModel) topCommand { return m.turn(1) },
	"n":     (*topModel).next,
	"b":     (*topModel).previous,
	"p":     (*topModel).pause,
	"r":     (*topModel).redrive,
	" ":     (*topModel).stopOrGoOn,
}

// keyChanges are the keys that change what is shown.
var keyChanges = map[string]func(*topModel){
	"q":         func(m *topModel) { m.quit = true },
	"?":         (*topModel).turnHelp,
	"h":         (*topModel).turnHelp,
	"up":        func(m *topModel) { m.move(-1) },
	"k":         func(m *topModel) { m.move(-1) },
	"down":      func(m *topModel) { m.move(1) },
	"j":         func(m *topModel) { m.move(1) },
	"esc":       (*topModel).back,
	"backspace": (*topModel).back,
}

// answer treats every key except y as no.
func (m *topModel) answer(key string) topCommand {
	asking := m.asking
	m.asking = nil
	if key == "y" {
		return m.thenRefresh(asking.command)
	}
	m.message = "nothing was changed"
	return nil
}

func (m *topModel) turnHelp() { m.help = !m.help }

func (m *topModel) stopOrGoOn() topCommand {
	if m.paused = !m.paused; !m.paused {
		return m.refresh
	}
	return nil
}

// items are the items that the cursor can stand on, from the top.
func (m *topModel) items() (items []string) {
	switch {
	case m.detail != nil || m.frame == nil:
	case m.rows != nil:
		for _, r := range m.rows.page.Rows {
			items = append(items, r.ID.String())
		}
	default:
		for _, q := range m.frame.Queues {
			items = append(items, q.key())
		}
		for _, s := range m.frame.Topics {
			items = append(items, s.key())
		}
		for _, e := range m.frame.Errors {
			items = append(items, e.key())
		}
	}
	return items
}

func (m *topModel) move(by int) {
	if m.detail != nil {
		m.scroll = min(max(m.scroll+by, 0), max(len(m.detail)-1, 0))
		return
	}
	items := m.items()
	if len(items) == 0 {
		return
	}
	m.cursor = items[min(max(slices.Index(items, m.cursor)+by, 0), len(items)-1)]
}

func (m *topModel) back() {
	switch {
	case m.help:
		m.help = false
	case m.detail != nil:
		m.detail = nil
	case m.rows != nil:
		m.cursor, m.rows = m.rows.title, nil
		if !slices.Contains(m.items(), m.cursor) {
			m.move(0)
		}
	}
}

// queue returns the queue under the cursor, if there is one.
func (m *topModel) queue() (topQueue, bool) {
	if m.frame != nil && m.rows == nil {
		for _, q := range m.frame.Queues {
			if q.key() == m.cursor {
				return q, true
			}
		}
	}
	return topQueue{}, false
}

// selected returns the table and the filter of the line under the cursor.
func (m *topModel) selected() (table string, f operate.Filter, state string, ok bool) {
	if q, found := m.queue(); found {
		return q.Table, filterBy(q.By, q.Name), "ready", true
	}
	if m.frame == nil || m.rows != nil {
		return "", operate.Filter{}, "", false
	}
	if s, found := m.topic(); found {
		return s.Table, s.filter(), "waiting", true
	}
	for _, e := range m.frame.Errors {
		if e.key() == m.cursor {
			f, state := filterBy(e.By, e.Name), "failed"
			f.Error = literalPart(e.Error)
			if e.Failed == 0 {
				state = "ready"
			}
			return e.Table, f, state, true
		}
	}
	return "", operate.Filter{}, "", false
}

// filterBy returns the filter for one value of a column.
func filterBy(column, name string) (f operate.Filter) {
	switch column {
	case "kind":
		f.Kind = name
	case "queue":
		f.Queue = name
	case "topic":
		f.Topic = name
	case "consumer":
		f.Consumer = name
	case "subscription":
		f.Subscription = name
	}
	return f
}

// literalPart returns the longest part that all errors of a group have in common.
func literalPart(text string) (longest string) {
	for part := range strings.SplitSeq(text, "…") {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

func (m *topModel) enter() topCommand {
	if m.rows != nil && m.detail == nil {
		return m.show()
	}
	table, f, state, ok := m.selected()
	if !ok {
		return nil
	}
	return m.load(topPage{title: m.cursor, table: table, filter: f, state: state})
}

// load reads a page of rows and shows it.
func (m *topModel) load(p topPage) topCommand {
	db, limit := m.db, max(m.height-8, 10)
	return func(ctx context.Context, _ func(string)) topChange {
		t, err := db.table(ctx, p.table)
		if err != nil {
			return failed(err)
		}
		o := operate.ListOptions{State: p.state, Limit: limit, Filter: p.filter}
		if len(p.after) > 0 {
			o.After = p.after[len(p.after)-1]
		}
		if p.page, err = db.list(ctx, t, o); err != nil {
			return failed(err)
		}
		return func(m *topModel) {
			m.rows, m.detail = &p, nil
			m.move(0)
		}
	}
}

func (m *topModel) turn(by int) topCommand {
	if m.rows == nil || m.detail != nil {
		return nil
	}
	p := *m.rows
	n := len(topStates)
	p.state, p.after = topStates[(slices.Index(topStates, p.state)+by+n)%n], nil
	return m.load(p)
}

func (m *topModel) next() topCommand {
	if m.rows == nil || m.detail != nil || m.rows.page.Next == "" {
		return nil
	}
	p := *m.rows
	p.after = append(slices.Clone(p.after), p.page.Next)
	return m.load(p)
}

func (m *topModel) previous() topCommand {
	if m.rows == nil || m.detail != nil || len(m.rows.after) == 0 {
		return nil
	}
	p := *m.rows
	p.after = p.after[:len(p.after)-1]
	return m.load(p)
}

// show reads all of the row that the cursor stands on.
func (m *topModel) show() topCommand {
	id, err := uuid.Parse(m.cursor)
	if err != nil {
		return nil
	}
	db, table := m.db, m.rows.table
	return func(ctx context.Context, _ func(string)) topChange {
		lines, err := db.rowLines(ctx, table, id)
		if err != nil {
			return failed(err)
		}
		return func(m *topModel) { m.detail, m.scroll = lines, 0 }
	}
}

// rowLines returns the lines that txwork show prints for a row.
func (d *database) rowLines(ctx context.Context, table string, id uuid.UUID) ([]string, error) {
	t, err := d.table(ctx, table)
	if err != nil {
		return nil, err
	}
	r, err := d.Show(ctx, t, id, 0, nil)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	if err := (&app{stdout: &b}).printRow(r); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n"), nil
}

// pause asks whether to pause a queue of jobs or a topic, or to resume it.
func (m *topModel) pause() topCommand {
	if s, ok := m.topic(); ok {
		return m.pauseTopic(s)
	}
	q, ok := m.queue()
	if !ok || q.By != "queue" || q.Table != jobsTable {
		m.message = "only queues of jobs and topics can be paused"
		return nil
	}
	change, verb, done := (*jobs.Client).Pause, "Pause", "paused"
	if q.Paused {
		change, verb, done = (*jobs.Client).Resume, "Resume", "resumed"
	}
	db := m.db
	m.asking = &topAsking{fmt.Sprintf("%s queue %s?", verb, named(q.Name)), func(ctx context.Context,
		_ func(string)) topChange {
		c, err := jobs.Open(jobs.Options{Schema: db.Schema, Telemetry: db.app.telemetry()})
		if err == nil {
			err = db.Act(ctx, queueAct(strings.ToLower(verb), q.Name), func(tx workqueue.Tx) (int, error) {
				return 1, change(c, ctx, tx, q.Name)
			})
		}
		if err != nil {
			return failed(err)
		}
		return say("queue %s %s", named(q.Name), done)
	}}
	return nil
}

// redrive counts the dead letters of the line under the cursor, and asks.
func (m *topModel) redrive() topCommand {
	if m.rows != nil {
		return m.redriveRow()
	}
	table, f, _, ok := m.selected()
	if !ok {
		return nil
	}
	db := m.db
	return func(ctx context.Context, _ func(string)) topChange {
		r, err := db.findLetters(ctx, table, f)
		if err != nil {
			return failed(err)
		}
		if r.order.Counted == 0 {
			return say("%s has no dead letters there", table)
		}
		question := fmt.Sprintf("Redrive %s of %s?", plural(r.order.Counted, "dead letter"),
			aboutOf(f, table))
		return func(m *topModel) { m.asking = &topAsking{question, r.redrive} }
	}
}

// foundLetters are the dead letters that were counted. Those that come later are not included.
type foundLetters struct {
	db    *database
	table *workqueue.Table
	order operate.Order
}

func (d *database) findLetters(ctx context.Context, table string, f operate.Filter) (r foundLetters, err error) {
	t, err := d.table(ctx, table)
	if err != nil {
		return r, err
	}
	now, err := d.Now(ctx)
	if err != nil {
		return r, err
	}
	o := operate.Order{Action: uuid.New(), Table: t.Spec().Table, Verb: operate.Redrive.Name,
		States: []string{"failed"}, Filter: f, Before: now}
	o.Counted, err = d.count(ctx, t, o.Selection())
	r = foundLetters{d, t, o}
	return r, err
}

// redrive redrives the rows and reports its progress.
func (r foundLetters) redrive(ctx context.Context, tell func(string)) topChange {
	changed := 0
	sofar := func() string { return fmt.Sprintf("%d of %s redriven", changed, plural(r.order.Counted, "row")) }
	err := r.db.Start(ctx, r.table, r.order, func(n int) {
		changed += n
		tell(sofar())
	})
	if err != nil {
		return say("%s, then: %s", sofar(), explain(err))
	}
	return say("%s", sofar())
}

// redriveRow asks about the row that the cursor stands on.
func (m *topModel) redriveRow() topCommand {
	id, err := uuid.Parse(m.cursor)
	if err != nil {
		return nil
	}
	db, p, reload := m.db, *m.rows, m.load(*m.rows)
	m.asking = &topAsking{fmt.Sprintf("Redrive %s?", id), func(ctx context.Context, tell func(string)) topChange {
		t, err := db.table(ctx, p.table)
		if err != nil {
			return failed(err)
		}
		all, err := db.Decide(ctx, t, redriving.Verb, []uuid.UUID{id}, nil)
		if err != nil {
			return failed(err)
		}
		if !all[0].Changed {
			return say("%s was not redriven: %s", id, all[0].Why)
		}
		change := reload(ctx, tell)
		return func(m *topModel) {
			change(m)
			m.message = fmt.Sprintf("%s redriven", id)
		}
	}}
	return nil
}

// screen returns the lines to show, exactly height of them: a head that stays, the part of the body around the cursor,
// and a foot.
func (m *topModel) screen(width, height int) []styledLine {
	head, body := m.body(width)
	foot := m.foot(width)
	room := max(height-len(head)-len(foot), 1)
	body, at := m.marked(body)
	if m.detail != nil && !m.help {
		at = m.scroll + room/2
	}
	from := min(max(at-room/2, 0), max(len(body)-room, 0))
	body = body[from:min(from+room, len(body))]
	for len(body) < room {
		body = append(body, styledLine{})
	}
	return append(append(slices.Clone(head), body...), foot...)[:max(height, 1)]
}

// marked returns the body with the line under the cursor reversed, and the index of that line or -1.
func (m *topModel) marked(body []styledLine) ([]styledLine, int) {
	at := slices.IndexFunc(body, func(l styledLine) bool { return l.item != "" && l.item == m.cursor })
	if at < 0 {
		return body, at
	}
	body = slices.Clone(body)
	body[at].style = reverse
	if rest, indented := strings.CutPrefix(body[at].text, " "); indented {
		body[at].text = ">" + rest
	}
	return body, at
}

// body returns the lines that stay at the top, and those that scroll.
func (m *topModel) body(width int) (head, body []styledLine) {
	switch {
	case m.help:
		head = []styledLine{{text: fit("txwork top: keys", width), style: bold}, {}}
		for _, k := range topKeys {
			body = append(body, styledLine{text: fit(fmt.Sprintf("  %-12s %s", k[0], k[1]), width)})
		}
	case m.frame == nil:
		head = []styledLine{{text: fit("txwork top: reading", width), style: bold}}
	case m.detail != nil:
		head = []styledLine{{text: fit(fmt.Sprintf("%s  %s", m.rows.table, m.cursor), width), style: bold}, {}}
		for _, text := range m.detail {
			body = append(body, styledLine{text: fit(harmless(text), width)})
		}
	case m.rows != nil:
		lines := m.rows.lines(width)
		return lines[1:3], lines[3:]
	default:
		lines := m.frame.lines(width)
		return lines[:1], lines[1:]
	}
	return head, body
}

// lines returns the page as a table under its title.
func (p *topPage) lines(width int) []styledLine {
	t := topTable{none: "no row is " + strings.ReplaceAll(p.state, "_", " ")}
	t.title = aboutOf(p.filter, p.table) + "  " + strings.ToUpper(strings.ReplaceAll(p.state, "_",
		" "))
	if p.filter.Error != "" {
		t.title += "  error: " + harmless(p.filter.Error)
	}
	if p.page.Searched > 0 {
		t.title += "  " + searched(p.page)
		t.none = "none of these: n goes on"
	}
	l, columns := operate.Listings[p.state], operate.ListedColumns(p.page.Domain, p.page.Columns)
	t.columns = []topColumn{{head: "ID", left: true}, {head: l.When, left: true}, {head: "TRY"}}
	if l.Runs {
		t.columns = append(t.columns, topColumn{head: "RUNNING SINCE", left: true})
	}
	for _, c := range columns {
		t.columns = append(t.columns, topColumn{head: strings.ToUpper(named(c.Name)), left: true, grows: true,
			beside: c.Name != "topic" && c.Name != "kind" && c.Name != "key"})
	}
	t.columns = append(t.columns, topColumn{head: "LAST ERROR", left: true, grows: true, prose: true})
	for _, r := range p.page.Rows {
		when := "-"
		if at := l.Time(&r.Row); at != nil {
			when = relative(at.Sub(p.page.Now))
		}
		cells := []string{r.ID.String(), when, fmt.Sprintf("%d/%d", r.Attempts, r.MaxAttempts)}
		if l.Runs {
			since := "-"
			if r.RunningFrom != nil {
				since = relative(r.RunningFrom.Sub(p.page.Now))
			}
			cells = append(cells, since)
		}
		cells = append(cells, cellsOf(&r.Row, columns)...)
		t.rows = append(t.rows, topRow{cells: append(cells, lastError(&r.Row)), item: r.ID.String()})
	}
	return t.lines(width)
}

// foot is the last line: a question, a message, or the keys.
func (m *topModel) foot(width int) []styledLine {
	switch {
	case m.asking != nil:
		return []styledLine{{}, {text: fit(m.asking.question+" [y/N]", width), style: warning}}
	case m.message != "":
		return []styledLine{{}, {text: fit(m.message, width), style: warning}}
	case m.trouble != "":
		return []styledLine{{}, {text: fit("no news: "+m.trouble, width), style: alarm}}
	}
	return []styledLine{{}, {text: fit(m.keys(), width)}}
}

// keys names the keys that do something in this view.
func (m *topModel) keys() string {
	switch {
	case m.help:
		return "esc back  q quit"
	case m.detail != nil:
		return "↑↓ scroll  r redrive  esc back  q quit"
	case m.rows != nil:
		return "↑↓ move  enter row  ←→ state  n b page  r redrive  esc back  q quit"
	case m.paused:
		return "stopped: space goes on  ↑↓ move  enter rows  ? help  q quit"
	}
	return "↑↓ move  enter rows  p pause  r redrive  space stop  ? help  q quit"
}
