// Package liveness has only tests. They check what others can do while one session holds a lock for long, legitimately
// or because it is frozen.
//
// [TestApplications], [TestFunctions], [TestMaintenance] and [TestRows] use one holder after the other, such as an open
// transaction, and check that every bystander still gets its work done: other keys, other rows of the same limited key,
// other queues, joins and tables, a client in SQL, the reaper, the purge, and what the command line reads.
// [TestPrograms] stops a program before each thing that it sends, and makes the server refuse each of its statements,
// once and forever.
//
// With -full, programs are disturbed at every moment instead of once for each sort of moment, and every bystander runs
// beside every holder.
//
// A bystander that stands still fails after patience, which is long enough for any machine: the holder lets go only
// after all bystanders have finished.
package liveness
