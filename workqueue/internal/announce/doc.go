// Package announce has the SQL by which the workers of a table learn of rows and notes. It is the producers' side of a
// protocol whose other side are the listeners and announcers of package workqueue; docs/model/announcer.pml checks it.
// Spec.Announce and Spec.AnnounceNote are what authors of a domain need of it.
package announce
