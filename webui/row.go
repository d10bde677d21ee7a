package webui

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/survey"
)

const (
	maxContent = 64 << 10 // bytes that are shown of a payload
	maxBinary  = 4 << 10  // bytes that are shown of one that is no text
	maxText    = 16 << 10 // characters that are shown of an error or a header
	maxNested  = 32       // levels of JSON that are indented
)

// A rowPage is what row.html shows.
type rowPage struct {
	*operate.Shown
	Name     string // the table without its schema
	State    stateLabel
	Columns  []columnLine
	Error    block
	Headers  block
	Trace    string // address of the trace that it was written in
	Retry    string
	Payloads []payloadBlock
	Hidden   bool // payloads and headers are
	Late     bool // it runs for longer than it should

	Joins      []survey.Membership
	Neighbours []survey.Neighbour // in its key
	Ended      []survey.Attempt   // that are recorded, the latest first
	MoreEnded  bool
	Recorded   bool   // the table records how attempts end
	Around     string // why these could not be read
	Deeds      []deed
}

// A columnLine is a value of the domain. Those that identify rows lead to the others that have it.
type columnLine struct {
	Name   string
	Value  operate.Value
	Filter string // the name of the filter
}

// A block is a text of several lines, of which a part may be shown.
type block struct {
	Text string
	Cut  bool
}

// A payloadBlock is a payload. Its block is empty if it is hidden.
type payloadBlock struct {
	block
	Name, Kind        string
	Bytes, Shown      int
	Decoded, Redacted bool
	Undecoded         bool // the host's codec has failed
}

// row shows everything about a row.
func row(ctx context.Context, r *request) (view, error) {
	t, known, db, hidden, err := r.open(ctx)
	if err != nil {
		return view{}, err
	}
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return view{}, noID(known)
	}
	p := rowPage{Hidden: r.hidesContent(), Name: t.Spec().Table}
	if p.Shown, err = db.Show(ctx, t, id, r.content(), r.among(p.Name)); err != nil {
		if len(hidden) > 0 && isGone(err) {
			err = problem{status: http.StatusNotFound, Title: "The row is not there, or hidden", tables: known,
				Detail: err.Error() + " that the role of this dashboard sees.",
				Advice: "Row-level security hides rows from it: look as a role that sees all."}
		}
		return view{}, err
	}
	p.fill(ctx, r.handler)
	if err := p.around(ctx, r); err != nil {
		p.Around = r.handler.explain(ctx, "joins and key of a row of "+p.Name, err).Error()
	}
	if r.acts() {
		p.Deeds = deedsOf(p.State.State, p.Layout.Has("concurrency_key") && r.user.sees(p.Name))
	}
	return view{title: p.Name + " " + id.String(), page: "row.html", data: p, tables: known, partial: hidden}, nil
}

// around reads the joins that the row belongs to, its neighbours in its key, and how its attempts have ended. Joins and
// keys may be of several queues.
func (p *rowPage) around(ctx context.Context, r *request) error {
	h := r.handler
	facts, err := h.facts(ctx, p.Name)
	if err != nil || len(facts) == 0 {
		return err
	}
	t := &facts[0]
	if !r.user.sees(p.Name) {
		return p.readAttempts(ctx, h, t)
	}
	if p.Joins, err = survey.Memberships(ctx, h.reader(), t, p.ID.String()); err != nil {
		return err
	}
	if p.Neighbours, err = survey.KeyNeighbours(ctx, h.reader(), t, p.ID.String()); err != nil {
		return err
	}
	return p.readAttempts(ctx, h, t)
}

func isGone(err error) bool {
	_, gone := err.(operate.GoneError)
	return gone
}

// fill prepares what the template shows.
func (p *rowPage) fill(ctx context.Context, h *handler) {
	p.State, _ = labelOf(p.stateOf())
	for i, v := range p.Values(p.Layout.Plain) {
		name := p.Layout.Plain[i].Name
		if v.Null && operate.Rare(p.Name, name) {
			continue
		}
		p.Columns = append(p.Columns, columnLine{name, v, filterOf(name)})
	}
	if p.LastError != nil {
		p.Error = blockOf(h.errorOf(p.Name, *p.LastError))
	}
	headers := headersOf(p.Shown.Headers)
	if !p.Hidden {
		p.Trace, p.Headers = h.trace(headers), h.headers(p.Name, p.Shown.Headers)
	}
	if p.Held != nil {
		p.Held.Cause = h.errorOf(p.Name, p.Held.Cause)
	}
	if p.Shown.Retry != nil {
		p.Retry = clip(maxText, string(*p.Shown.Retry))
	}
	if p.RunningFrom != nil && p.RunsWithin != nil {
		p.Late = p.Now.Sub(*p.RunningFrom) > postgres.Seconds(*p.RunsWithin)
	}
	for _, c := range p.Layout.Payloads {
		one, ok := p.Shown.Payloads[c.Name]
		switch {
		case !ok:
		case p.Hidden:
			p.Payloads = append(p.Payloads, payloadBlock{Name: c.Name, Bytes: one.Bytes})
		default:
			about := Content{Table: p.Name, Name: c.Name, Headers: headers}
			p.Payloads = append(p.Payloads, h.payload(ctx, about, one))
		}
	}
}

// stateOf is the state in whose list the row is.
func (p *rowPage) stateOf() string {
	status := p.Status.String()
	switch {
	case status == "failed" && p.CancelledAt != nil:
		return "cancelled"
	case status == "in_progress" && p.LockedUntil != nil && p.LockedUntil.Before(p.Now):
		return "expired"
	case status == "ready" && p.Waiting:
		return "waiting"
	case status == "ready" && p.DueAt.After(p.Now):
		return "scheduled"
	}
	return status
}

// filterOf is the filter by which the list finds rows with a value of the column; empty for none.
func filterOf(column string) string {
	if slices.Contains(operate.KeyColumns, column) {
		return "key"
	}
	if slices.Contains([]string{"kind", "queue", "topic", "consumer", "subscription"}, column) {
		return column
	}
	return ""
}

// blockOf bounds a text, and makes what is not printable visible, but for the ends of lines and tabs.
func blockOf(text string) block {
	b := block{Text: text}
	if all := []rune(text); len(all) > maxText {
		b = block{string(all[:maxText]), true}
	}
	b.Text = visibleLines(b.Text)
	return b
}

func visibleLines(text string) string {
	var b bytes.Buffer
	for i, line := range bytes.Split([]byte(text), []byte("\n")) {
		if i > 0 {
			b.WriteByte('\n')
		}
		for k, part := range bytes.Split(line, []byte("\t")) {
			if k > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(postgres.Visible(string(part)))
		}
	}
	return b.String()
}

// pretty indents JSON, and leaves anything else as it is, and what would consist of its indentation for the most part.
func pretty(text string) string {
	var b bytes.Buffer
	if deep(text) || json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}

// deep tells whether a text may have more than maxNested levels of JSON. Brackets in strings count as well.
func deep(text string) bool {
	level := 0
	for _, c := range []byte(text) {
		switch c {
		case '[', '{':
			level++
		case ']', '}':
			level--
		}
		if level > maxNested {
			return true
		}
	}
	return false
}

// fill formats what is shown of a payload of a size: JSON indented, other text as it is, anything else as a hex dump.
func (b *payloadBlock) fill(data []byte, size int) {
	switch {
	case len(data) == 0:
		return
	case utf8.Valid(data):
		b.Shown, b.Kind = len(data), "text"
		if json.Valid(data) {
			b.Kind = "JSON"
		}
		b.Text = visibleLines(pretty(string(data)))
	default:
		data = data[:min(len(data), maxBinary)]
		b.Shown, b.Kind, b.Text = len(data), "binary", hex.Dump(data)
	}
	b.Cut = b.Shown < size
}

// Lost says how many leases the row has lost, and what that means.
func (p rowPage) Lost() string {
	if p.LostAlone+p.LostTogether == 0 {
		return ""
	}
	text := fmt.Sprintf("%d alone, %d together with other rows of its process", p.LostAlone, p.LostTogether)
	if p.LostAlone > 1 {
		text += ": it may end its process"
	}
	return text
}
