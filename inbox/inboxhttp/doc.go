// Package inboxhttp serves an inbox over HTTP. Process processes a message within its request and answers when it has had
// its effect; Receive stores it for a worker and answers when it is stored.
//
//	handler, err := inboxhttp.Process(pool, box, inboxhttp.Options{Consumer: "billing", Source: "shop"}, bill)
//	if err != nil {
//		return err
//	}
//	mux.Handle("POST /orders", handler)
//
// # The request
//
// Its id is in a header, Idempotency-Key by default: the same on every delivery of a message, and no other message's. It is compared
// as it stands. The body is the message; that of a second delivery has to be the same unless Options.AnyBody says otherwise.
// Traceparent and tracestate are the trace that the handler's context, or the stored message, continues, unless middleware such as
// otelhttp has put a span into the request's context.
//
// # The answer
//
//	processed, stored, duplicate   200  the sender is done
//	in progress                    503  with Retry-After: somebody is processing it now, and may fail
//	another body, same id          422
//	no id, or one that is refused  400
//	Options.Verify refuses it      401
//	another method than POST       405
//	a body over the limit          413
//	the database cannot be reached 503  with Retry-After: everything is rolled back, or will be a duplicate
//	the function fails             500  everything is rolled back; send it again
//
// The function of Process has the last word on its message: [workqueue.Permanent] is answered by 422, an [inbox.RefusedError] by 400,
// and [workqueue.RetryAfter] by 503 with that Retry-After. All of them roll back.
//
// Answers say nothing about the database or the function's errors, which are logged; only the text of what was refused, and the cause
// of a Permanent, are the sender's to read.
package inboxhttp
