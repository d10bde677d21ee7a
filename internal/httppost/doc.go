// Package httppost posts rows to URLs and turns the answers into outcomes: for web hooks of alarms, for the poster of
// the outbox, and for the handlers of `txwork worker`.
//
// A [Client] sends one request, with bounds on everything the other side has a say in. [Judge] says what a status
// means, [Answer.Outcome] makes it a handler's result. A [Poster] makes the request of a row.
package httppost
