package alarms

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/txwork/txwork/workqueue"
)

// A createRequest is the body of POST /v1/alarms.
type createRequest struct {
	Label          string          `json:"label"`
	Kind           string          `json:"kind"`
	DelaySeconds   int64           `json:"delay_seconds"`
	FireAt         string          `json:"fire_at"`
	CronExpr       string          `json:"cron_expr"`
	Timezone       string          `json:"timezone"`
	ConversationID string          `json:"conversation_id"`
	WakeMessage    string          `json:"wake_message"`
	Payload        json.RawMessage `json:"payload"`
	IdempotencyKey string          `json:"idempotency_key"`
	MaxFailures    int             `json:"max_failures"`
}

// A createAnswer is what is answered to it.
type createAnswer struct {
	ID         string    `json:"id"`
	NextFireAt time.Time `json:"next_fire_at"`
	Status     string    `json:"status"`
	Deduped    bool      `json:"deduped,omitempty"` // the alarm was there already
}

// parseCreate reads a body. What it refuses it names as the client does.
func parseCreate(body []byte) (New, error) {
	var r createRequest
	if !utf8.Valid(body) {
		return New{}, workqueue.Invalid("body", "is not valid UTF-8")
	}
	if err := workqueue.FirstError(decodeStrictly(body, &r), checkNames(body)); err != nil {
		return New{}, explainJSON(err)
	}
	fireAt, err := r.fireAt()
	if err != nil {
		return New{}, err
	}
	delay, err := r.delay()
	return New{
		Label:          strings.TrimSpace(r.Label),
		Kind:           r.Kind,
		FireAt:         fireAt,
		Delay:          delay,
		CronExpr:       r.CronExpr,
		Timezone:       r.Timezone,
		ConversationID: strings.TrimSpace(r.ConversationID),
		WakeMessage:    r.WakeMessage,
		Payload:        r.Payload,
		IdempotencyKey: strings.TrimSpace(r.IdempotencyKey),
		MaxFailures:    max(r.MaxFailures, 0),
	}, err
}

func (r createRequest) fireAt() (time.Time, error) {
	if r.FireAt == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, r.FireAt)
	if err != nil || at.IsZero() {
		return time.Time{}, workqueue.Invalid("fire_at", "is %q, it must be a time such as 2030-01-31T09:00:00Z (RFC 3339)", clip(r.FireAt))
	}
	return at, nil
}

func (r createRequest) delay() (time.Duration, error) {
	if limit := int64(MaxDelay.Seconds()); r.DelaySeconds < 0 || r.DelaySeconds > limit {
		return 0, workqueue.Invalid("delay_seconds", "is %d, it must be between 1 and %d", r.DelaySeconds, limit)
	}
	return time.Duration(r.DelaySeconds) * time.Second, nil
}

// fieldNames are those of a createRequest.
var fieldNames = func() (names []string) {
	for field := range reflect.TypeFor[createRequest]().Fields() {
		names = append(names, field.Tag.Get("json"))
	}
	return names
}()

// checkNames refuses what package encoding/json lets pass: names in other letters.
func checkNames(body []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(fieldNames, name) {
			return unknownField(name)
		}
	}
	return nil
}

func unknownField(name string) error {
	return workqueue.Invalid(clip(name), "is no field of this request")
}

// errTrailing says that something follows the JSON value.
var errTrailing = errors.New("something follows the JSON value")

// decodeStrictly refuses unknown members and what follows the value.
func decodeStrictly(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errTrailing
	}
	return nil
}

// explainJSON says which field cannot be read.
func explainJSON(err error) error {
	if errors.Is(err, workqueue.ErrInvalid) {
		return err
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		if wrong.Field == "" {
			return workqueue.Invalid("body", "is a JSON %s, it must be an object", wrong.Value)
		}
		return workqueue.Invalid(wrong.Field, "is a JSON %s, which does not fit %s", wrong.Value, wrong.Type)
	}
	if name, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		if field, err := strconv.Unquote(name); err == nil {
			return unknownField(field)
		}
	}
	if errors.Is(err, errTrailing) {
		return workqueue.Invalid("body", "has something after its JSON object")
	}
	return workqueue.Invalid("body", "is not a JSON object: %v", err)
}

// parseLimit reads the query of GET /v1/alarms; 0 where it names none.
func parseLimit(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, workqueue.Invalid("limit", "is %q, it must be a number", clip(text))
	}
	return n, nil
}
