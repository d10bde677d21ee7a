package alarms

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue/validate"
)

// A New is an alarm to create. OwnerDID, UserID, Kind and WakeMessage are required. A once alarm also needs either
// FireAt or Delay, and a cron alarm CronExpr.
type New struct {
	OwnerDID string // at most [MaxOwner] bytes
	UserID   string // at most [MaxOwner] bytes
	Label    string // at most [MaxLabel] bytes
	Kind     string // [KindOnce] or [KindCron]

	// FireAt has to lie in the future, by the database's clock.
	FireAt time.Time
	// Delay is relative to the time of the call, by the database's clock: at most [MaxDelay].
	Delay time.Duration

	// CronExpr is a cron expression of five fields, a descriptor such as @daily, or @every with a duration, see package
	// schedule.
	CronExpr string
	// Timezone is the IANA time zone of CronExpr. Default: UTC. It is ignored for a once alarm.
	Timezone string

	ConversationID string          // at most [MaxConversation] bytes
	WakeMessage    string          // at most [Options].MaxPayload bytes
	Payload        json.RawMessage // JSON that jsonb accepts, at most [Options].MaxPayload bytes. Default: {}

	// IdempotencyKey makes it safe to repeat the creation of an alarm: of an owner's alarms with the same key only the
	// first is written, for as long as its row exists. Default: none.
	IdempotencyKey string

	// MaxFailures is how many deliveries of a firing may fail before it is given up, at most [MaxMaxFailures].
	// Default: [Options].MaxFailures.
	MaxFailures int
}

// complete returns the alarm with its defaults filled in.
func (n New) complete(o Options) New {
	n.MaxFailures = cmp.Or(n.MaxFailures, o.MaxFailures)
	if len(n.Payload) == 0 {
		n.Payload = json.RawMessage("{}")
	}
	if n.Timezone == "" || n.Kind == KindOnce {
		n.Timezone = "UTC"
	}
	return n
}

// checkFirst validates what is needed to look up an alarm with the same key. Without a key, there is no such alarm, and
// it validates everything.
func (n New) checkFirst(o Options) error {
	if n.IdempotencyKey == "" {
		return n.check(o)
	}
	return cmp.Or(checkRequired("owner_did", n.OwnerDID, MaxOwner), checkText("idempotency_key", n.IdempotencyKey,
		MaxIdempotencyKey))
}

// check validates all fields. Its errors name them as the REST API does.
func (n New) check(o Options) error {
	return cmp.Or(
		checkRequired("owner_did", n.OwnerDID, MaxOwner),
		checkRequired("user_id", n.UserID, MaxOwner),
		checkText("label", n.Label, MaxLabel),
		n.checkKind(),
		checkText("conversation_id", n.ConversationID, MaxConversation),
		checkRequired("wake_message", n.WakeMessage, o.MaxPayload),
		checkPayload(n.Payload, o.MaxPayload),
		checkText("idempotency_key", n.IdempotencyKey, MaxIdempotencyKey),
		checkMaxFailures(n.MaxFailures),
	)
}

func (n New) checkKind() error {
	switch n.Kind {
	case KindOnce:
		return n.checkOnce()
	case KindCron:
		return n.checkCron()
	}
	return validate.Errorf("kind", "is %q, it must be %q or %q", clip(n.Kind), KindOnce, KindCron)
}

func (n New) checkOnce() error {
	switch {
	case n.CronExpr != "":
		return validate.Errorf("cron_expr", "is for kind %q", KindCron)
	case n.Delay != 0 && !n.FireAt.IsZero():
		return validate.Errorf("delay_seconds", "is set, and so is fire_at: one of them says when")
	case n.Delay == 0 && n.FireAt.IsZero():
		return validate.Errorf("fire_at", "is missing, and so is delay_seconds: one of them has to say when")
	case n.Delay < 0 || n.Delay > MaxDelay:
		return validate.Errorf("delay_seconds", "is %d, it must be between 1 and %d", int64(n.Delay.Seconds()),
			int64(MaxDelay.Seconds()))
	case n.FireAt.UTC().Year() > lastYear:
		return validate.Errorf("fire_at", "is in the year %d, the last is %d", n.FireAt.UTC().Year(), lastYear)
	}
	return nil
}

// lastYear is the last year for which the core plans.
const lastYear = 9998

func (n New) checkCron() error {
	switch {
	case !n.FireAt.IsZero():
		return validate.Errorf("fire_at", "is for kind %q", KindOnce)
	case n.Delay != 0:
		return validate.Errorf("delay_seconds", "is for kind %q", KindOnce)
	}
	if err := cmp.Or(checkRequired("cron_expr", n.CronExpr, MaxCronExpr), checkText("timezone", n.Timezone,
		MaxTimezone)); err != nil {
		return err
	}
	_, err := parse(n.CronExpr, n.Timezone)
	return err
}

// parse parses a cron rule. Its error names the field of the REST API that is wrong.
func parse(expr, zone string) (*schedule.Schedule, error) {
	s, err := schedule.Parse(expr, zone)
	if err == nil {
		return s, nil
	}
	field, reason := "cron_expr", err.Error()
	if e, ok := err.(*schedule.Error); ok {
		if reason = e.Field + " " + e.Reason; e.Field == "zone" {
			field, reason = "timezone", e.Reason
		}
	}
	return nil, validate.Errorf(field, "%s", reason)
}

func checkRequired(field, s string, limit int) error {
	if strings.TrimSpace(s) == "" {
		return validate.Errorf(field, "is missing")
	}
	return checkText(field, s, limit)
}

func checkText(field, s string, limit int) error {
	return cmp.Or(validate.Size(field, len(s), limit), validate.Text(field, s))
}

func checkMaxFailures(n int) error {
	if n < 1 || n > MaxMaxFailures {
		return validate.Errorf("max_failures", "is %d, it must be between 1 and %d", n, MaxMaxFailures)
	}
	return nil
}

// clip shortens text that is quoted in a message.
func clip(s string) string {
	const most = 50
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
