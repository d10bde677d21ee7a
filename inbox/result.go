package inbox

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// An Answer is what the inbox says to a message.
type Answer uint8

const (
	// Processed: this call has processed the message, or, from Begin, this transaction is the one to do it.
	Processed Answer = iota + 1
	// Stored: Receive has written the message, and a worker will process it once that has committed.
	Stored
	// Duplicate: the message was processed before, or has failed for good, see [Result].Status.
	// From Receive: it is there already, in whatever state. Acknowledge it.
	Duplicate
	// InProgress: somebody is processing the message now, or it is stored and waits for a worker. Nothing was
	// done. Whether it will succeed is open, so do not acknowledge it unless [Result].ID is set: then its row
	// is committed, and a worker will see to it.
	InProgress
	// HashMismatch: a message of this key was seen before, and it said something else. Nothing was done. The
	// source uses an id twice, or words one message differently each time, see [Key].BodyHash.
	HashMismatch
)

var answerNames = [...]string{"unknown", "processed", "stored", "duplicate", "in_progress", "hash_mismatch"}

func (a Answer) String() string {
	if int(a) >= len(answerNames) {
		return fmt.Sprintf("answer(%d)", uint8(a))
	}
	return answerNames[a]
}

// HTTPStatus is the status with which an HTTP endpoint that is handed messages, such as a webhook, answers its
// sender. Senders take any 2xx for an acknowledgement.
//
//   - Processed, Stored and Duplicate: 200. The message is here for good; nothing would come of sending it again.
//   - InProgress: 503 Service Unavailable, since it may yet fail and has to be sent again. It is not 409: many senders
//     repeat after a 5xx only and take a 4xx for a refusal, and then a message is lost whose first delivery fails.
//   - HashMismatch: 422 Unprocessable Content. Sending it again changes nothing; somebody has to look at the source.
//
// The zero Answer, which comes with every error, is 500; [HTTPStatus] looks at the error, too.
func (a Answer) HTTPStatus() int {
	switch a {
	case Processed, Stored, Duplicate:
		return 200
	case InProgress:
		return 503
	case HashMismatch:
		return 422
	}
	return 500
}

// HTTPStatus is the status for what [Inbox.Process], [Inbox.Begin] or [Inbox.Receive] returned, see
// [Answer.HTTPStatus]. A key or message that can never be taken, such as one without an id, is 400: sending it again
// changes nothing. Any other error is 500: everything is rolled back, and it has to be sent again.
func HTTPStatus(r Result, err error) int {
	var invalid *workqueue.InvalidError
	switch {
	case err == nil:
		return r.Answer.HTTPStatus()
	case errors.As(err, &invalid) && invalid.Field == "consumer": // which is the program's, not the message's
		return 500
	case errors.As(err, new(*RefusedError)):
		return 400
	}
	return 500
}

func parseAnswer(name string) (Answer, error) {
	for i, known := range answerNames {
		if i > 0 && known == name {
			return Answer(i), nil
		}
	}
	return 0, fmt.Errorf("txwork: %w: the inbox answered %q, which this library does not know: upgrade it", workqueue.ErrSchemaVersion, name)
}

// A Result is what became of a message. The zero Result, which comes with every error, answers nothing.
type Result struct {
	Answer Answer

	// ID is the message's row: the new one, or that which holds the key. It is zero while that row is in a
	// transaction which has not ended.
	ID uuid.UUID

	// Status is the row's: a Duplicate is [workqueue.Done], or [workqueue.Failed] if the message is a dead
	// letter that waits for somebody's decision. Where ID is zero it means nothing.
	Status workqueue.Status
}
