// Package backup runs the commands of docs/backup.md on databases whose queues are in the middle of their work, and
// sees that all of it goes on in the copy.
package backup
