package alarms

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

const (
	// maxPage limits the alarms of one answer, in bytes of JSON. A single alarm that is larger is a page by itself.
	maxPage = 1 << 20

	// listChunk is how many alarms one query reads. It is small because alarms may be large, and those that do not fit
	// the page are discarded.
	listChunk = 20
)

// A cursor is the position after an alarm in a list. The zero cursor is before the first alarm.
type cursor struct {
	at *time.Time // when the alarm was created
	id *uuid.UUID
}

func cursorOf(a Alarm) cursor {
	id := uuid.MustParse(a.ID)
	return cursor{&a.CreatedAt, &id}
}

// String returns the cursor as clients send it back. The zero cursor is empty.
func (c cursor) String() string {
	if c.at == nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.at.UnixMicro(), 10) + "." + c.id.String()))
}

func parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	micros, id, _ := strings.Cut(string(decoded), ".")
	n, numberErr := strconv.ParseInt(micros, 10, 64)
	key, idErr := uuid.Parse(id)
	if err := cmp.Or(err, numberErr, idErr); err != nil {
		return cursor{}, validate.Errorf("cursor", "is %q, it must be a next_cursor of an earlier answer", clip(text))
	}
	at := time.UnixMicro(n)
	return cursor{&at, &key}, nil
}

// ListAlarms reads an owner's alarms, the newest first. The limit is at most [MaxList], and [DefaultList] if it is not
// positive. All alarms are in memory at the same time, each as large as [Options].MaxPayload allows.
func (s *Store) ListAlarms(ctx context.Context, ownerDID string, limit int) (list []Alarm, err error) {
	limit = listLimit(limit)
	err = s.each(ctx, ownerDID, cursor{}, func(a Alarm) bool {
		list = append(list, a)
		return len(list) < limit
	})
	return list, err
}

func listLimit(n int) int {
	if n <= 0 {
		return DefaultList
	}
	return min(n, MaxList)
}

// each reads an owner's alarms after the cursor, the newest first, until visit returns false.
func (s *Store) each(ctx context.Context, ownerDID string, after cursor, visit func(Alarm) bool) error {
	return s.do(ctx, func(tx workqueue.Tx) error {
		for more, n := true, listChunk; more && n == listChunk; {
			n = 0
			err := tx.Query(ctx, func(scan func(...any) error) error {
				a, err := scanAlarm(scan)
				if n++; err != nil || !more {
					return err
				}
				more, after = visit(a), cursorOf(a)
				return nil
			}, s.alarms.statements.list, ownerDID, after.at, after.id, listChunk)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// A page is the data in the answer to a list request.
type page struct {
	Alarms     []json.RawMessage `json:"alarms"`
	Count      int               `json:"count"`
	NextCursor string            `json:"next_cursor,omitempty"` // set if there are more alarms

	limit, size int
	last        cursor
}

// add adds an alarm. It returns false if the page is full, and the alarm belongs on the next one.
func (p *page) add(a Alarm) (bool, error) {
	text, err := encode(ViewOf(a))
	if err != nil {
		return false, err
	}
	if p.Count == p.limit || p.Count > 0 && p.size+len(text) > maxPage {
		p.NextCursor = p.last.String()
		return false, nil
	}
	p.Alarms, p.Count, p.size, p.last = append(p.Alarms, text), p.Count+1, p.size+len(text), cursorOf(a)
	return true, nil
}

// page encodes alarms while it reads them. It is answered after the connection to the database is free again, so a slow
// client occupies the memory of one page, and no connection that other requests need.
func (s *Store) page(ctx context.Context, ownerDID string, after cursor, limit int) (*page, error) {
	p := &page{Alarms: []json.RawMessage{}, limit: listLimit(limit)}
	var encodeErr error
	err := s.each(ctx, ownerDID, after, func(a Alarm) (more bool) {
		more, encodeErr = p.add(a)
		return more
	})
	if err = cmp.Or(err, encodeErr); err != nil {
		return nil, err
	}
	return p, nil
}

// parseLimit reads the limit from the query of GET /v1/alarms. It is 0 if the query has none.
func parseLimit(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, validate.Errorf("limit", "is %q, it must be a number", clip(text))
	}
	return n, nil
}
