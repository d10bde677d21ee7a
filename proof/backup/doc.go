// Package backup runs the commands of docs/backup.md on databases whose queues are in the middle of their work, and
// verifies that all of the work continues in the copy.
package backup
