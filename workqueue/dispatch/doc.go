// Package dispatch runs what has work at certain times: a [Processor], such as a workqueue.Drain.
//
//   - A [Poll] runs it at intervals, when it is due, and at once when woken. Use it in a process that stays up.
//   - An [Alarm] runs it when a platform calls back at a time that was asked for. Use it where a program sleeps between
//     calls and has a single alarm.
//   - [Group] makes one processor of several.
//
// Both never run a processor twice at a time, contain its panics, and repeat a failed run after a pause. A Worker has a
// Poll of its own: call its Run instead.
package dispatch
