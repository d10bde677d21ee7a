// Package liveness has tests only: of what others can do while somebody holds a lock for long, legitimately or because
// it is frozen.
//
// [TestApplications], [TestMaintenance] and [TestRows] take one holder after the other, an open transaction, say, and
// see that every bystander still gets its work done: other keys, other rows of the same limited key, other queues,
// joins and tables, the reaper, the purge, and what the command line reads. [TestPrograms] stops a program before
// whatever it sends, one after the other, and has the server refuse every statement of it, once and for ever.
//
// With -full programs are disturbed at every moment, not once of each sort, and beside every holder stands every
// bystander.
//
// A bystander that stands still fails by patience, which no machine is too slow for: the holder lets go only after all
// bystanders have finished.
package liveness
