// Package inboxhttp serves an inbox over HTTP. Process runs a function for a message within its request, and answers
// when the function's effect is committed. Receive stores the message for a worker, and answers when it is stored.
//
//	handler, err := inboxhttp.Process(pool, box, inboxhttp.Options{Consumer: "billing", Source: "shop"}, bill)
//	if err != nil {
//		return err
//	}
//	mux.Handle("POST /orders", handler)
//
// A [Router] is Process with a handler for each topic. The topic of a message that package outboxhttp sends is that of
// the outbox:
//
//	router, err := inboxhttp.NewRouter(pool, box, inboxhttp.Options{Consumer: "billing", Source: "shop"})
//	if err != nil {
//		return err
//	}
//	router.Handle("order.placed", bill)
//	router.Handle("order.refunded", codec.HandlerIn(refund)) // refund takes the decoded JSON body
//	mux.Handle("POST /orders", router)
//
// Process needs no worker, but old keys have to be deleted: put the inbox's Tables into the Options.Tables of a
// service, pass them to reaper.Run, or call [inbox.Inbox.Purge].
//
// # Who signed what
//
// Set Options.Verify if the sender signs. It returns the message's id and topic, so that what is used is what was
// checked; the headers below are then not read. [StandardWebhooks] verifies the common signature:
//
//	Verify: inboxhttp.StandardWebhooks(signer, inboxhttp.TypeOf),
//
// Without Verify, whoever reaches the handler chooses the id and the topic.
//
// # The request
//
// Without Verify, the message id is in a header, Idempotency-Key by default. It must be unique to a message and the
// same on every delivery of it, and it is compared as it is. The body is the message. A second delivery must have the
// same body, unless you set Options.AnyBody. The header Txwork-Topic, or Options.Topic, gives the topic. The headers
// traceparent and tracestate carry the trace that the handler's context, or the stored message, continues, unless
// middleware such as otelhttp has put a span into the request's context.
//
// # The answer
//
//	processed, stored, duplicate   200  the sender is done
//	in progress                    503  with Retry-After: another delivery is being processed, and may fail
//	same id, other body or topic   422
//	no id, or the inbox refuses it 400
//	Txwork-Topic cannot be decoded 400, also if it is there twice
//	Options.Verify refuses it      401
//	another method than POST       405
//	a body over the limit          413
//	the database is unavailable    503  with Retry-After: everything is rolled back, or will be a duplicate
//	no transaction within MaxWait  503  with Retry-After: nothing was done
//	the function fails or panics   500  everything is rolled back; send it again
//	no handler for the topic       500  a Router only; the same
//	a Decode fails                 500  the same
//
// The function of Process can choose another answer: [workqueue.Permanent] is answered by 422, an [inbox.RefusedError]
// by 400, and [workqueue.RetryAfter] by 503 with that Retry-After. All of them roll back.
//
// Answers contain nothing about the database or about the function's errors, which are logged. The sender sees only why
// a message was refused, and the cause of a Permanent.
package inboxhttp
