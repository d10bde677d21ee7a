// Package security tests what docs/security.md promises, over all domains at once: what each role can and cannot do,
// that every function is safe to be called by every role that may call it, and that payloads and passwords do not
// appear in logs, spans or errors.
package security
