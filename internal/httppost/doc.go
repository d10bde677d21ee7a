// Package httppost posts rows to URLs and turns the answers into outcomes: for web hooks of alarms, for the poster of
// the outbox, and for the handlers of `txwork worker`.
//
// A [Client] sends one request, and bounds everything that the other side controls. [Judge] says what a status means,
// and [Answer.Outcome] turns it into a handler's result. A [Poster] makes the request of a row.
package httppost
