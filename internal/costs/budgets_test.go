package costs_test

// The budgets. Beside each is the figure that was measured when it was set, on PostgreSQL 15. A change that makes
// something cheaper lowers the budget here, and nowhere else.

// Pages read, whether or not they were in the server's buffers.
const (
	// claimPages is how many pages a worker's claims read for every hundred claimed rows, including claims of empty
	// lanes and what a session looks up once. Measured: 603 to 647.
	claimPages = 680

	// crowdRatio is how many times as many pages that may be with a hundred thousand other rows in the table. Measured:
	// 0.97 to 1.02, and 1.12 to 1.19 where the rows are ready and held back: each claimed row is then found in an index
	// with a level more.
	crowdRatio = 1.25

	// lookPages may be added to that ratio for a statement that neither claims nor settles: an index on many rows has
	// more levels, and a statement that was sent only once has looked up what it needs in the catalogs. Measured: 1 to
	// 50, once 390 and once 636; a statement that reads the crowd, or its part of an index, reads 770 and more.
	lookPages = 700

	// cursorRatio is how many times as many pages a claim may read that has twenty thousand rows behind it which vacuum
	// cannot remove. Measured: 1.00.
	cursorRatio = 1.2

	// fetchedRows is how many rows a fetch by the SQL function leaves behind its cursor.
	fetchedRows = 40_000

	// sweptRatio is how many times as many pages fetches may read if their sweeps count.
	sweptRatio = 2

	// fetchRatio is how many times as many pages and bytes of log as a claim of a worker a fetch of as many rows may
	// cost.
	fetchRatio = 1.05

	// settleRatio is the same for settles and renewals.
	settleRatio = 1.05
)

// Sizes in bytes of the stored expressions of the table of jobs, which every writing statement parses again. The size
// of an expression depends on PostgreSQL's version.
const (
	checkBytes = 4800 // measured: 3,894; 10,808 before kind, queue, priority and progress were domains
	whenBytes  = 5200 // of triggers that a settle may fire; measured: 4,185
)

// Write-ahead log in bytes for each job, with 30 bytes of args, between two checkpoints.
const (
	insertWAL = 350 // measured: 338
	claimWAL  = 180 // measured: 172
	ackWAL    = 262 // measured: 251 to 252

	limitedClaimWAL = 950  // measured: 791
	limitedAckWAL   = 312  // measured: 292 to 297
	ratedClaimWAL   = 430  // measured: 356
	bothClaimWAL    = 1150 // measured: 896 to 1001, the longer it takes the more: claims of 32, and autovacuum beside
)

// The table process after 2,000 beats of 40 processes, and the write-ahead log of one.
const (
	beatPages = 10   // measured: 4
	beatWAL   = 300  // measured: 233
	flushWAL  = 3800 // measured: 2982, of five lanes
	mergeWAL  = 900  // measured: 669, of a hundred rows together, for each five
)

// Statements sent, including BEGIN and COMMIT, and commits as PostgreSQL counts them, which include the preparation of
// a statement.
const (
	// A drain without a worker's loop sends this many in any case. Measured: 29 and 14; it asks for a queue's rule once
	// more if it takes longer than half a second.
	drainStatements = 35
	drainCommits    = 20

	// batchStatements and batchCommits are for a batch of any size: two claims, one for each lane, and one settle.
	// Measured: 12 and 3.
	batchStatements = 12
	batchCommits    = 3

	// workerStatements and workerCommits are a worker's for every thousand jobs, in claims of up to 1,000 and settles
	// of up to 1,000. Measured: 20 to 33, and 8 to 15; on a busy machine settles are smaller.
	workerStatements = 50
	workerCommits    = 25

	// runStatements and runCommits are for a full batch of an ordered key: the claim of its head, its run, its settle
	// and the fold that releases the next head. Measured: 12 and 7.
	runStatements = 25
	runCommits    = 14

	// idleStatements are sent in a minute by an idle worker and its scheduler. Measured: 779.
	idleStatements = 1100
)

// The costs of a process, however many queues it serves.
const (
	// idleConnections, and idleTransactions for each second, are those of an idle process.
	idleConnections  = 6
	idleTransactions = 5

	// upkeepStatements are the sweeps and folds of a table of jobs in a second, however many processes serve it.
	// Measured: 4.
	upkeepStatements = 5

	// jobTransactions are those of a process with twenty queues for a single job that arrives. Measured: 3.
	jobTransactions = 8

	// jobStatements are sent with the claim and the settle of a single job that arrives. Measured: 5.1 to 5.6; a claim
	// that asks for a queue's rule, every half a second, has two more.
	jobStatements = 7

	// busyConnections are used in addition to the application's pool.
	busyConnections = 8
)

// Allocations for each job, in the client: a tenth more than measured.
const (
	workerAllocations  = 15.5 // measured: 13.6
	enqueueAllocations = 62.0 // of one job, with its transaction; measured: 56
	bulkAllocations    = 6.8  // of each of a thousand; measured: 6.1
)
