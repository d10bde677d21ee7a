package webui

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/txwork/txwork/internal/operate"
)

// Content is what a row carries and a page shows: a payload, a header or an error.
type Content struct {
	Table string // without its schema
	Name  string // the column of a payload, the name of a header, or "error"

	// Headers are those of the row, for a payload only.
	Headers map[string]string

	// Bytes are what is stored or, of a payload that was decoded, the result. Both are complete; the end of a payload
	// that is not decoded may be cut off.
	Bytes []byte
}

// maxDecoded is how large a payload may be that is read in full for Config.Decode.
const maxDecoded = 1 << 20

// hidesContent tells whether the user sees no payloads and headers.
func (r *request) hidesContent() bool { return r.handler.HideContent && r.user.Role != Operator }

// content is how many bytes are read of each payload.
func (r *request) content() int32 {
	switch {
	case r.hidesContent():
		return 0
	case r.handler.Decode != nil:
		return maxDecoded
	}
	return maxContent
}

// redacted is what may be shown of a text.
func (h *handler) redacted(table, name, text string) string {
	if h.Redact == nil || text == "" {
		return text
	}
	return h.Redact(Content{Table: table, Name: name, Bytes: []byte(text)})
}

// errorOf is what may be shown of an error of a table's row.
func (h *handler) errorOf(table, text string) string { return h.redacted(table, "error", text) }

// headersOf reads headers as the database writes them.
func headersOf(d operate.Document) map[string]string {
	var raw map[string]any
	_ = json.Unmarshal([]byte(d), &raw) // the server made the document
	all := map[string]string{}
	for name, value := range raw {
		if text, ok := value.(string); ok {
			all[name] = text
			continue
		}
		text, _ := json.Marshal(value) // what was read from JSON
		all[name] = string(text)
	}
	return all
}

// headers formats the headers of a row.
func (h *handler) headers(table string, d operate.Document) block {
	if h.Redact == nil {
		return blockOf(pretty(string(d)))
	}
	all := headersOf(d)
	for name, text := range all {
		all[name] = h.redacted(table, name, text)
	}
	text, _ := json.Marshal(all) // texts only
	return blockOf(pretty(string(text)))
}

// payload formats a payload. The host's codec decodes it, if the host lets it, and its redaction comes last.
func (h *handler) payload(ctx context.Context, c Content, p operate.Payload) payloadBlock {
	whole := p.Base64
	if p.Text != nil {
		whole = []byte(*p.Text)
	}
	b := payloadBlock{Name: c.Name, Bytes: p.Bytes}
	if h.Decode != nil && len(whole) == p.Bytes && p.Bytes > 0 {
		c.Bytes = whole
		text, err := h.Decode(ctx, c)
		if err != nil {
			h.Logger.WarnContext(ctx, "dashboard: a payload could not be decoded", "table", c.Table, "column", c.Name,
				"error", err)
			b.Undecoded = true // the error may quote the payload
		} else {
			whole, b.Decoded = text, true
		}
	}
	size := len(whole)
	if !b.Decoded {
		size = p.Bytes
	}
	if h.Redact != nil && len(whole) > 0 {
		c.Bytes = whole
		redacted := h.Redact(c)
		if redacted != string(whole) {
			whole, b.Redacted = []byte(redacted), true
			size = len(whole)
		}
	}
	b.fill(cutText(whole, maxContent), size)
	return b
}

// cutText keeps at most so many bytes, and no part of a character.
func cutText(text []byte, most int) []byte {
	if len(text) <= most {
		return text
	}
	for n := most; n > most-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return text[:n]
		}
	}
	return text[:most]
}

// traceparent is the header of W3C Trace Context: version, trace, span, flags.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

// trace is the address of the trace that a row was written in; empty if it has none, or the host no template.
func (h *handler) trace(headers map[string]string) string {
	found := traceparent.FindStringSubmatch(headers["traceparent"])
	if h.TraceURL == "" || found == nil {
		return ""
	}
	return strings.NewReplacer("{trace}", found[1], "{span}", found[2]).Replace(h.TraceURL)
}
