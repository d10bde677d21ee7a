// Package security holds tests of what docs/security.md promises, over all domains at once: what each role can do and
// cannot, that every function is safe to be called by whoever may, and that payloads and passwords get into no log,
// no span and no error.
package security
