// Package outboxhttp delivers messages of an outbox over HTTP: a [Poster] posts each message to a URL, and derives the
// outcome of the delivery from the answer.
//
//	poster, err := outboxhttp.NewPoster(outboxhttp.Options{URL: "https://billing.internal/orders"})
//	if err != nil {
//		return err
//	}
//	relay.Handle("order.placed", poster.Deliver)
//
// # The request
//
// The body is the message's payload. Content-Type is the message's header content-type, or else that of the options,
// which is application/json by default, whatever the payload contains. Idempotency-Key is the message's id, which is
// the same on every attempt. A receiver that stores it, as package inboxhttp does, processes the message once.
// Txwork-Topic, Txwork-Key and Txwork-Attempt describe the message; bytes that are not printable ASCII are
// percent-encoded. inboxhttp decodes the topic, and its Router passes the message to the handler of the topic; other
// receivers decode the headers with [net/url.PathUnescape]. Traceparent and tracestate continue the trace of the
// delivery, or, if this process is not traced, the trace of the code that enqueued the message. Other headers of the
// message may be confidential, so they are sent only if the options name them.
//
// # The answer
//
//	2xx                          delivered
//	408, 409, 425, 429, 5xx      retried by the message's backoff
//	any other 4xx, 410 included  failed for good: a dead letter
//	anything else                retried; redirects are not followed, to any host
//	no answer                    retried: the timeout has passed, or the connection broke
//	no connection                not the message has failed: its topic rests, see [workqueue.Unavailable]
//
// Options.Statuses changes these outcomes: [Unavailable] for a status with which a proxy says that the receiver is
// away. Options.NoAnswer does it where there is none. A Retry-After, in seconds or as a date, postpones the next
// attempt, by a day at most. The pause is never shorter than the backoff of [workqueue.DefaultRetry]: otherwise a
// receiver that always answers "Retry-After: 1" would use up all attempts in seconds. The error that is stored with the
// message contains the status and the first 300 bytes of the body, and never the URL.
//
// # Where requests go
//
// Proxies from the environment are used, and addresses of every kind are dialled, because your own services usually
// have private addresses. If others choose the URL, set Options.PublicOnly.
package outboxhttp
