package httppost

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/txwork/txwork/workqueue"
)

const (
	// maxExcerpt is how much of a refusal's body becomes part of the error, in bytes.
	maxExcerpt = 300

	// maxDrain is how much of an answer is read so that its connection can be reused.
	maxDrain = 64 << 10
)

// MaxRetryAfter bounds how long a receiver may postpone a delivery. It is the longest pause that Standard Webhooks
// recommends.
const MaxRetryAfter = 24 * time.Hour

// A Verdict says what becomes of a delivery.
type Verdict uint8

const (
	Done        Verdict = iota + 1 // accepted
	Retry                          // may be accepted later
	Permanent                      // will never be accepted
	Unavailable                    // may be accepted later, as any other delivery to the receiver
)

// Judge returns the [Verdict] of a status:
//
//   - 2xx: [Done].
//   - 408 Request Timeout, 425 Too Early, 429 Too Many Requests and 5xx: [Retry]. So is 409 Conflict, which many
//     APIs use while a request with the same idempotency key is still being processed.
//   - Every other 4xx, including 410 Gone: [Permanent].
//   - Anything else, such as a redirect, which is not followed: [Retry], since the receiver is not at the given
//     address.
func Judge(status int) Verdict {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return Retry
	}
	switch status / 100 {
	case 2:
		return Done
	case 4:
		return Permanent
	}
	return Retry
}

// An Answer is what a receiver answered.
type Answer struct {
	Status     int
	Location   string        // where a redirect leads, without a password; empty for other answers
	RetryAfter time.Duration // 0 if there is none; at most MaxRetryAfter
	Excerpt    string        // the beginning of the body, if the status is not 2xx
}

// read reads the relevant parts of a response.
func read(response *http.Response) Answer {
	a := Answer{Status: response.StatusCode, RetryAfter: retryAfter(response.Header.Get("Retry-After"), time.Now())}
	if a.Status/100 == 2 {
		io.CopyN(io.Discard, response.Body, maxDrain)
		return a
	}
	if a.Status/100 == 3 {
		a.Location = location(response.Header.Get("Location"))
	}
	excerpt, _ := io.ReadAll(io.LimitReader(response.Body, maxExcerpt))
	a.Excerpt = strings.TrimSpace(strings.ToValidUTF8(string(excerpt), ""))
	return a
}

// location returns what is shown of the header of a redirect.
func location(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	text = u.Redacted()
	if len(text) > maxExcerpt {
		text = strings.ToValidUTF8(text[:maxExcerpt], "") + "…"
	}
	return text
}

// Outcome turns the answer into a handler's result. A Retry-After is respected for every status that is a [Retry], but
// the pause is never shorter than least.
func (a Answer) Outcome(v Verdict, least time.Duration) error {
	switch {
	case v == Done:
		return nil
	case v == Permanent:
		return workqueue.Permanent(a.refusal())
	case v == Unavailable:
		return workqueue.Unavailable(a.refusal())
	case a.RetryAfter > 0:
		return workqueue.RetryAfter(max(a.RetryAfter, least), a.refusal())
	}
	return a.refusal()
}

// refusal returns the status and the beginning of the body, or where a redirect leads instead, since its body only says
// the same in HTML. The text of the status is the standard's, since the receiver's may be long.
func (a Answer) refusal() error {
	status := strings.TrimSpace(fmt.Sprintf("the receiver answered %d %s", a.Status, http.StatusText(a.Status)))
	switch {
	case a.Location != "":
		return fmt.Errorf("%s: redirects are not followed, this one leads to %s", status, a.Location)
	case a.Excerpt == "":
		return errors.New(status)
	}
	return fmt.Errorf("%s: %s", status, a.Excerpt)
}

// retryAfter reads a number of seconds, however large, or a date. It returns 0 for anything else, and for a time that
// has passed.
func retryAfter(text string, now time.Time) time.Duration {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds > int(MaxRetryAfter/time.Second) {
			return MaxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}
