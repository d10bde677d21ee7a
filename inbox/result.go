package inbox

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// An Answer tells what the inbox did with a message.
type Answer uint8

const (
	// Processed: this call has processed the message. From Begin: this transaction is the one that processes it.
	Processed Answer = iota + 1
	// Stored: Receive has written the message. A worker processes it once the transaction has committed.
	Stored
	// Duplicate: the message was processed before, or is a dead letter, see [Result].Status. From Receive: the message
	// already exists, in whatever state. Acknowledge it.
	Duplicate
	// InProgress: another delivery is being processed, or the message is stored and waits for a worker. Nothing was
	// done. It may still fail, so do not acknowledge it unless [Result].ID is set: then its row is committed, and a
	// worker processes it.
	InProgress
	// HashMismatch: the key was used before with other content. Nothing was done. The source uses an id twice, or
	// encodes the same message differently each time, see [Key].BodyHash.
	HashMismatch
)

var answerNames = [...]string{"unknown", "processed", "stored", "duplicate", "in_progress", "hash_mismatch"}

func (a Answer) String() string {
	if int(a) >= len(answerNames) {
		return fmt.Sprintf("answer(%d)", uint8(a))
	}
	return answerNames[a]
}

// HTTPStatus is the status with which an HTTP endpoint that receives messages, such as a webhook, answers its sender,
// for the results of [Inbox.Process], [Inbox.Begin] and [Inbox.Receive]. Senders treat any 2xx as an acknowledgement.
//
//   - Processed, Stored and Duplicate: 200. The inbox has the message for good; sending it again has no effect.
//
//   - InProgress: 503 Service Unavailable, because the message may still fail and must then be sent again. It is not
//     409: many senders repeat only after a 5xx and treat a 4xx as a refusal, so a message whose first delivery fails
//     would be lost.
//
//   - HashMismatch: 422 Unprocessable Content. Sending it again has no effect; the source has to be investigated.
//
//   - An error because of a key or message that can never be accepted, such as one without an id: 400. With any other
//     error it is 500: everything is rolled back, and the message must be sent again.
func HTTPStatus(r Result, err error) int {
	var invalid *workqueue.InvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Field == "consumer": // the program sets it, not the sender
		return 500
	case errors.As(err, new(*RefusedError)):
		return 400
	case err != nil:
		return 500
	}
	switch r.Answer {
	case Processed, Stored, Duplicate:
		return 200
	case InProgress:
		return 503
	case HashMismatch:
		return 422
	}
	return 500
}

func parseAnswer(name string) (Answer, error) {
	for i, known := range answerNames {
		if i > 0 && known == name {
			return Answer(i), nil
		}
	}
	return 0, fmt.Errorf("txwork: %w: the inbox answered %q, which this library does not know: upgrade it",
		workqueue.ErrSchemaVersion, name)
}

// A Result describes what happened to a message. The zero Result is returned with every error.
type Result struct {
	Answer Answer

	// ID is the id of the message's row: the new one, or the one that holds the key. It is zero while that row belongs
	// to a transaction that has not ended.
	ID uuid.UUID

	// Status is the status of that row: for a Duplicate [workqueue.Done], or [workqueue.Failed] if the message is a
	// dead letter. It has no meaning while ID is zero.
	Status workqueue.Status
}
