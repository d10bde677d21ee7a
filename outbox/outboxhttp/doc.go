// Package outboxhttp delivers messages of an outbox by HTTP: a [Poster] posts each to a URL, and turns the answer into the
// outcome of the delivery.
//
//	poster, err := outboxhttp.NewPoster(outboxhttp.Options{URL: "https://billing.internal/orders"})
//	if err != nil {
//		return err
//	}
//	relay.Handle("order.placed", poster.Deliver)
//
// # The request
//
// The body is the message's payload, and Content-Type that of the options, or the message's own where it has a header
// content-type. Idempotency-Key is the message's id, which is the same on every attempt: a receiver that remembers it, as
// package inboxhttp does, processes the message once. Txwork-Topic, Txwork-Key and Txwork-Attempt say what the message is;
// what is not printable ASCII in them is percent-encoded. Traceparent and tracestate continue the trace of the delivery or, where
// nothing is traced here, that of the code which enqueued the message. Other headers of the message are not sent unless the options
// name them: they may be nobody else's business.
//
// # The answer
//
//	2xx                          delivered
//	408, 409, 425, 429, 5xx      retried by the message's backoff
//	any other 4xx, 410 included  failed for good: a dead letter
//	anything else                retried; redirects are not followed, to any host
//	no answer                    retried: within the timeout, or because the connection failed
//
// Options.Statuses has other verdicts. A Retry-After, in seconds or as a date, puts off the next attempt, by a day at most. It is
// not shorter than the backoff of [workqueue.DefaultRetry]: a receiver that always answers "Retry-After: 1" would use up all attempts
// in seconds. The error that the message keeps has the status and the first 300 bytes of the body, and never the URL.
//
// # Where requests go
//
// Proxies of the environment are used, and addresses of every kind are dialled: services of your own are mostly private. Where
// somebody else chooses the URL, set Options.PublicOnly.
package outboxhttp
