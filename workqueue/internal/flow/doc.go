// Package flow decides how many rows a worker claims, and which of the rows that it holds get a handler next: so many
// that no handler is idle while a claim is under way, no more than the process finishes soon, of each topic only its
// share, and few beside a row that may have ended its process.
//
// Only package workqueue may import it. It imports nothing of this project: it knows a row by its [Place], never
// sees its payload, and sends no statement. What it decides about is handed to it, and it hands back what to
// release.
package flow
