package inbox

import (
	"cmp"
	"crypto/sha256"
	"time"
)

// A Key identifies a message for [Inbox.Process] and [Inbox.Begin]. Consumer, Source and MessageID are required: 1 to
// [MaxKeyPart] bytes each, compared byte for byte.
type Key struct {
	// Consumer names the part of your application that processes the message, such as billing. Each consumer processes
	// it once.
	Consumer string

	// Source names the system that issued MessageID: a topic or partition of a broker, the sender of a webhook, another
	// service.
	Source string

	// MessageID is the same on every delivery of the message, and different from that of any other message of the
	// source.
	MessageID string

	// Topic is what the message is about, if the content does not say so: a [Message] with this key has the same one.
	// The hash of Body covers it. Default: Source.
	Topic string

	// Body is the content of the message. If it is not nil, a hash of it and of Topic is stored, and a message with the
	// same key and another hash is answered with [HashMismatch]. The hash of a body whose topic is the source is its
	// SHA-256. With another topic it is the SHA-256 of the topic followed by these 32 bytes.
	Body []byte

	// BodyHash replaces the hash of Body: 32 bytes. Set it if Body is not available, or if the source encodes the same
	// message differently each time.
	BodyHash []byte

	// KeepBody stores Body with the key, for [Options].Retention. It is for people who inspect the table; the library
	// does not read it. Body is then at most [Options].MaxPayload bytes long.
	KeepBody bool
}

// A Message is stored by [Inbox.Receive] for a [Worker]. Consumer, Source and MessageID are required, as in a [Key].
type Message struct {
	Consumer  string
	Source    string
	MessageID string

	// Topic selects the handler of the consumer: at most [MaxTopic] bytes. Default: Source.
	Topic string

	// Payload is the message's body, which the inbox does not interpret: at most [Options].MaxPayload bytes. Nil is an
	// empty payload.
	Payload []byte

	// Value is encoded by [Options].Codec and stored as the payload. Leave Payload nil if you set it.
	Value any

	// BodyHash is compared with the hash of an earlier message with the same key, see [HashMismatch]: 32 bytes.
	// Default: the hash of Payload and Topic, as [Key].Body describes it; with a Value and a codec that encrypts, that
	// of the plaintext. Set it to the hash of the parts that do not change if the payload differs between deliveries.
	// Set it to a keyed hash, such as an HMAC, if those who can read the table must not be able to verify a guess of
	// the content.
	BodyHash []byte

	// Headers are delivered with the message: names and values of at most [MaxHeaders] bytes together. The trace
	// context of the receiving code is added under traceparent and tracestate, unless you set them in whatever case.
	Headers map[string]string

	// ScheduledAt is the earliest time of processing, by the database's clock. The zero time and times in the past mean
	// now.
	ScheduledAt time.Time

	// MaxAttempts is how often processing is attempted at most. Zero: [Options].MaxAttempts.
	MaxAttempts int
}

// hash returns the key's body hash, or nil for none.
func (k Key) hash() []byte {
	if len(k.BodyHash) == 0 && k.Body != nil {
		return hashOf(k.Source, k.Topic, k.Body)
	}
	return k.BodyHash
}

// payload returns what is stored with the key, or nil for nothing.
func (k Key) payload() []byte {
	if k.KeepBody {
		return k.Body
	}
	return nil
}

// values returns the columns of the Spec that describe the key in telemetry. Its topic is the source, because a sender
// could otherwise create any number of time series.
func (k Key) values() []any {
	return record{consumer: k.Consumer, source: k.Source, messageID: k.MessageID, topic: k.Source}.values()
}

func (m Message) hash() []byte {
	if len(m.BodyHash) == 0 {
		return hashOf(m.Source, m.Topic, m.Payload)
	}
	return m.BodyHash
}

func (m Message) topic() string { return cmp.Or(m.Topic, m.Source) }

// hashOf covers the topic, too, because it decides which handler takes the message: a second delivery with another
// topic is another message.
func hashOf(source, topic string, body []byte) []byte {
	sum := sha256.Sum256(body)
	if topic != "" && topic != source {
		sum = sha256.Sum256(append([]byte(topic), sum[:]...))
	}
	return sum[:]
}
