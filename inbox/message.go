package inbox

import (
	"cmp"
	"crypto/sha256"
	"github.com/txwork/txwork/internal/input"
	"time"
)

// A Key identifies a message for [Inbox.Process] and [Inbox.Begin]. Consumer, Source and MessageID have to
// be set: 1 to [MaxKeyPart] bytes each, compared byte for byte.
type Key struct {
	// Consumer is who processes the message, such as billing. Each consumer processes it once.
	Consumer string

	// Source is who issued MessageID: a broker's topic or partition, a web hook's sender, another service.
	Source string

	// MessageID is the same whenever the source delivers the message again, and no other message's.
	MessageID string

	// Body is what the message says. If it is not nil its SHA-256 is kept, and a message of the same key
	// and another hash is told apart, see [HashMismatch].
	Body []byte

	// BodyHash is used in the place of Body's hash: 32 bytes. Set it where Body is not at hand, or where the
	// source words the same message differently each time.
	BodyHash []byte

	// KeepBody stores Body with the key, for [Options].Retention. It is for people who look into the table:
	// nothing reads it. Body is at most [Options].MaxPayload bytes long then.
	KeepBody bool
}

// A Message is what [Inbox.Receive] stores for a [Worker]. Consumer, Source and MessageID have to be set, as
// in a [Key].
type Message struct {
	Consumer  string
	Source    string
	MessageID string

	// Topic says which of the consumer's handlers processes the message: at most [MaxTopic] bytes. Default:
	// Source.
	Topic string

	// Payload is the message's body, opaque to the inbox. Nil is an empty payload. It is at most
	// [Options].MaxPayload bytes long.
	Payload []byte

	// Value is encoded by [Options].Codec in the place of Payload, which stays nil then. Nil is none.
	Value any

	// BodyHash is compared with that of a message of the same key, see [HashMismatch]: 32 bytes. Default: the
	// SHA-256 of Payload, and with a Value that of what the codec encrypts, if it does. Set it to the hash of
	// what does not change, where the same message may have another payload each time; and to one with a
	// secret, such as an HMAC, where those who read the table must not be able to try what they suspect.
	BodyHash []byte

	// Headers travel with the message: names and values of at most [MaxHeaders] bytes together. The trace
	// context of the receiving code is added under traceparent and tracestate, unless you set them.
	Headers map[string]string

	// ScheduledAt is when the message may first be processed, by the database's clock. The zero time and
	// every past time mean now.
	ScheduledAt time.Time

	// MaxAttempts bounds how often processing is tried. Zero is [Options].MaxAttempts.
	MaxAttempts int
}

// hash is the key's body hash, nil for none.
func (k Key) hash() []byte {
	if len(k.BodyHash) == 0 && k.Body != nil {
		return hashOf(k.Body)
	}
	return k.BodyHash
}

// payload is what is stored with the key, nil for nothing.
func (k Key) payload() []byte {
	if k.KeepBody {
		return k.Body
	}
	return nil
}

func (m Message) hash() []byte {
	if len(m.BodyHash) == 0 {
		return hashOf(m.Payload)
	}
	return m.BodyHash
}

func (m Message) topic() string { return cmp.Or(m.Topic, m.Source) }

func hashOf(body []byte) []byte {
	sum := sha256.Sum256(body)
	return sum[:]
}

// size is what the message adds to a statement, in bytes.
func (m Message) size() int { return len(m.Payload) + input.HeaderSize(m.Headers) }
