package inboxhttp

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/txwork/txwork/webhook"
	"github.com/txwork/txwork/workqueue/validate"
)

// Verified is what a [Options].Verify has checked of a request. The inbox deduplicates by ID and selects the handler by
// Topic, so take both from what the signature covers. Otherwise whoever captures one request can send it again under
// another id, where it takes effect once more, or to the handler of another topic.
type Verified struct {
	ID    string // unique to a message, and the same on every delivery
	Topic string // empty: the source
}

// StandardWebhooks returns an [Options].Verify for senders that sign according to the Standard Webhooks specification.
// The id is webhook-id. The specification signs the id, the time and the body, so the topic can only come from the
// body: topicOf returns it, such as [TypeOf]. If topicOf is nil, the topic of every message is the source. The time may
// be off by [webhook.DefaultTolerance].
//
// Use one secret for each handler: the path is not signed.
func StandardWebhooks(s *webhook.Signer, topicOf func(body []byte) (string, error)) func(*http.Request, []byte) (
	Verified, error) {
	return func(r *http.Request, body []byte) (v Verified, err error) {
		if v.ID, err = s.Verify(r.Header, body, 0); err == nil && topicOf != nil {
			v.Topic, err = topicOf(body)
		}
		return v, err
	}
}

// TypeOf returns the member type of a JSON object, which is where Standard Webhooks recommends to put what a message is
// about.
func TypeOf(body []byte) (string, error) {
	var members map[string]json.RawMessage // a struct would take a member in any case, such as TYPE, too
	var topic string
	if json.Unmarshal(body, &members) != nil || json.Unmarshal(members["type"], &topic) != nil || topic == "" {
		return "", errors.New("the body is no JSON object with a type")
	}
	return topic, validate.JSON("the type", members["type"])
}

// Unsigned returns the id and the topic from headers, by default from [DefaultKeyHeader] and [TopicHeader]. It is for a
// Verify that authenticates the sender of the whole request, by a token or a client certificate, and for senders whose
// signature covers the body alone. In the latter case whoever captures a request can repeat its effect: make the
// function idempotent by what is in the body.
func Unsigned(r *http.Request, keyHeader string) (Verified, error) {
	id, err := headerID(r, keyHeader)
	if err != nil {
		return Verified{}, err
	}
	values := r.Header.Values(TopicHeader)
	if len(values) == 0 {
		return Verified{ID: id}, nil
	}
	topic, err := url.PathUnescape(values[0])
	if len(values) > 1 || err != nil {
		return Verified{}, &malformedError{fmt.Sprintf("the header %s is not percent-encoded, or there more than once",
			TopicHeader)}
	}
	return Verified{id, topic}, nil
}

func headerID(r *http.Request, header string) (string, error) {
	header = cmp.Or(header, DefaultKeyHeader)
	ids := r.Header.Values(header)
	if len(ids) != 1 || ids[0] == "" {
		return "", &malformedError{fmt.Sprintf("the header %s has to be there once, with the message's id", header)}
	}
	return ids[0], nil
}

// A malformedError says why the headers of a request name no message. The sender is told.
type malformedError struct{ text string }

func (e *malformedError) Error() string { return e.text }

// identify returns what the message of a request is, as Verify or the options say.
func (o Options) identify(r *http.Request, body []byte) (v Verified, err error) {
	switch {
	case o.Verify != nil:
		v, err = o.Verify(r, body)
		if err == nil && v.ID == "" {
			err = errors.New("no id was returned by Verify")
		}
	case o.Topic != nil:
		v.ID, err = headerID(r, o.KeyHeader)
		v.Topic = o.Topic(r)
	default:
		v, err = Unsigned(r, o.KeyHeader)
	}
	v.Topic = cmp.Or(v.Topic, o.Source)
	return v, err
}
