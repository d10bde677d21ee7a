package alarms

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
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

// A createAnswer is the data of the answer to POST /v1/alarms.
type createAnswer struct {
	ID         string    `json:"id"`
	NextFireAt time.Time `json:"next_fire_at"`
	Status     string    `json:"status"`
	Deduped    bool      `json:"deduped,omitempty"` // the alarm existed already
}

// parseCreate parses the body of a createRequest. Its errors name fields as the client does.
func parseCreate(body []byte) (New, error) {
	var r createRequest
	if !utf8.Valid(body) {
		return New{}, validate.Errorf("body", "is not valid UTF-8")
	}
	if err := decodeStrictly(body, &r); err != nil {
		return New{}, explainJSON(err)
	}
	if err := checkMembers(body); err != nil {
		return New{}, explainJSON(err)
	}
	fireAt, err := r.fireAt()
	if err != nil {
		return New{}, err
	}
	delay, err := r.delay()
	return New{
		Label:          r.Label,
		Kind:           r.Kind,
		FireAt:         fireAt,
		Delay:          delay,
		CronExpr:       r.CronExpr,
		Timezone:       r.Timezone,
		ConversationID: r.ConversationID,
		WakeMessage:    r.WakeMessage,
		Payload:        r.Payload,
		IdempotencyKey: r.IdempotencyKey,
		MaxFailures:    max(r.MaxFailures, 0),
	}, err
}

func (r createRequest) fireAt() (time.Time, error) {
	if r.FireAt == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, r.FireAt)
	if err != nil || at.IsZero() {
		return time.Time{}, validate.Errorf("fire_at",
			"is %q, it must be a time such as 2030-01-31T09:00:00Z (RFC 3339)", clip(r.FireAt))
	}
	return at, nil
}

func (r createRequest) delay() (time.Duration, error) {
	if limit := int64(MaxDelay.Seconds()); r.DelaySeconds < 0 || r.DelaySeconds > limit {
		return 0, validate.Errorf("delay_seconds", "is %d, it must be between 1 and %d", r.DelaySeconds, limit)
	}
	return time.Duration(r.DelaySeconds) * time.Second, nil
}

// fieldNames are the names of the JSON fields of a createRequest.
var fieldNames = func() (names []string) {
	for field := range reflect.TypeFor[createRequest]().Fields() {
		names = append(names, field.Tag.Get("json"))
	}
	return names
}()

// checkMembers refuses what package encoding/json accepts or changes silently: names in another case, repeated members,
// and halves of surrogate pairs.
func checkMembers(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil { // the opening brace, or null, which has no members
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := checkMember(name.(string), value, seen); err != nil {
			return err
		}
	}
	return nil
}

func checkMember(name string, value json.RawMessage, seen map[string]bool) error {
	switch {
	case !slices.Contains(fieldNames, name):
		return unknownField(name)
	case seen[name]:
		return validate.Errorf(name, "is there more than once")
	}
	seen[name] = true
	return validate.JSON(name, value)
}

func unknownField(name string) error {
	return validate.Errorf(clip(name), "is no field of this request")
}

// errTrailing says that something follows the JSON value.
var errTrailing = errors.New("something follows the JSON value")

// decodeStrictly decodes JSON, and refuses unknown members and anything that follows the value.
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

// jsonKind says in JSON's words what a field of a Go type takes.
func jsonKind(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number of at most 18 digits, without a fraction or an exponent"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}

// explainJSON turns an error of encoding/json into one that names the field.
func explainJSON(err error) error {
	if errors.Is(err, workqueue.ErrInvalid) {
		return err
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return validate.Errorf("body", "is a JSON %s, it must be an object", wrong.Value)
		}
		return validate.Errorf(wrong.Field, "is a JSON %s, it must be %s", wrong.Value, jsonKind(wrong.Type))
	}
	if name, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		if field, err := strconv.Unquote(name); err == nil {
			return unknownField(field)
		}
	}
	if errors.Is(err, errTrailing) {
		return validate.Errorf("body", "has something after its JSON object")
	}
	return validate.Errorf("body", "is not a JSON object: %v", err)
}
