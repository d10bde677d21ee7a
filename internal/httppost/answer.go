package httppost

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/txwork/txwork/workqueue"
)

const (
	// maxExcerpt is how much of a refusal's body becomes part of the error, in bytes.
	maxExcerpt = 300

	// maxDrain is how much of an answer is read so that its connection can be used again.
	maxDrain = 64 << 10
)

// MaxRetryAfter bounds how long a receiver may put a delivery off: as long as the longest pause that Standard Webhooks
// recommends.
const MaxRetryAfter = 24 * time.Hour

// A Verdict is what becomes of a delivery.
type Verdict uint8

const (
	Done      Verdict = iota + 1 // it was accepted
	Retry                        // it may be accepted another time
	Permanent                    // it never will be
)

// Judge is the [Verdict] of a status:
//
//   - 2xx: [Done].
//   - 408 Request Timeout, 425 Too Early, 429 Too Many Requests and 5xx: [Retry]. So is 409 Conflict, by which many
//     APIs say that a request of the same idempotency key is still being processed.
//   - Every other 4xx, 410 Gone among them: [Permanent].
//   - Anything else, such as a redirect, which is not followed: [Retry], since the receiver is not where it was said
//     to be.
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

// An Answer is what a receiver said.
type Answer struct {
	Status     int
	RetryAfter time.Duration // 0 for none, at most MaxRetryAfter
	Excerpt    string        // the beginning of a body, where the status is not 2xx
}

// read reads what there is to read of an answer.
func read(response *http.Response) Answer {
	a := Answer{Status: response.StatusCode, RetryAfter: retryAfter(response.Header.Get("Retry-After"), time.Now())}
	if a.Status/100 == 2 {
		io.CopyN(io.Discard, response.Body, maxDrain)
		return a
	}
	excerpt, _ := io.ReadAll(io.LimitReader(response.Body, maxExcerpt))
	a.Excerpt = strings.TrimSpace(strings.ToValidUTF8(string(excerpt), ""))
	return a
}

// Outcome is the answer as the result of a handler. A Retry-After is kept to on every status that is a [Retry], but is
// no shorter than the given pause.
func (a Answer) Outcome(v Verdict, least time.Duration) error {
	switch {
	case v == Done:
		return nil
	case v == Permanent:
		return workqueue.Permanent(a.refusal())
	case a.RetryAfter > 0:
		return workqueue.RetryAfter(max(a.RetryAfter, least), a.refusal())
	}
	return a.refusal()
}

// refusal is the status and the beginning of the body. The status has the phrase of the standard: the receiver's may be
// long.
func (a Answer) refusal() error {
	status := strings.TrimSpace(fmt.Sprintf("the receiver answered %d %s", a.Status, http.StatusText(a.Status)))
	if a.Excerpt == "" {
		return errors.New(status)
	}
	return fmt.Errorf("%s: %s", status, a.Excerpt)
}

// retryAfter reads seconds, of which no number is too large, or a date; 0 for anything else, and for what has passed.
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
