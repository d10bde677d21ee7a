// Package log is the storage of an outbox as a log: messages that are written once and never updated, and subscriptions
// that read them with positions of their own. ADR 0079 has the protocol, its invariants and what is missing.
//
// It is for package outbox alone, and renders what a schema needs: tables, and functions that every client calls. It
// never talks to a database, and knows of no destination.
package log
