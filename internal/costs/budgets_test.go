package costs_test

// The budgets. Each stands beside the figure that was measured when it was set, on PostgreSQL 15; whoever makes
// something cheaper lowers it here, and nowhere else.

// Pages, in the server's buffers or not.
const (
	// claimPages is what a worker's claims read by a hundred rows that they claim, with those of lanes in which there
	// is nothing, and with what a session looks up once. Measured: 603 to 647.
	claimPages = 680

	// crowdRatio is how many times as much it may be with a hundred thousand other rows in the table.
	// Measured: 0.97 to 1.10.
	crowdRatio = 1.2

	// lookPages may come on top of that ratio for a statement that neither claims nor settles: an index on many rows
	// is higher, and one that was sent only once has looked up what it needs in the catalogs. Measured: 1 to 50, once
	// 390 and once 636; who reads the crowd, or the part of an index where it is, reads 770 and more.
	lookPages = 700

	// cursorRatio is how many times as much a claim may read that has twenty thousand rows behind it which no
	// vacuum can remove. Measured: 1.00.
	cursorRatio = 1.2
)

// Bytes of the stored expressions of the table of jobs, which every statement that writes reads anew. How many a column
// takes depends on PostgreSQL's version.
const (
	checkBytes = 4800 // measured: 3,894; 10,808 before kind, queue, priority and progress were domains
	whenBytes  = 8500 // of triggers that a settle may fire; measured: 6,872
)

// Write-ahead log, bytes by job, 30 bytes of args, between two checkpoints.
const (
	insertWAL = 350 // measured: 338
	claimWAL  = 180 // measured: 172
	ackWAL    = 262 // measured: 251 to 252
)

// Statements that are sent, BEGIN and COMMIT included, and commits by PostgreSQL's count, where to prepare a statement
// is one, too.
const (
	// A drain without a worker's loop sends this much in any case. Measured: 29 and 14; it asks for a queue's rule
	// once more if it takes longer than half a second.
	drainStatements = 35
	drainCommits    = 20

	// batchStatements and batchCommits are those of a batch of any size: two lanes are claimed from, one settle.
	// Measured: 12 and 3.
	batchStatements = 12
	batchCommits    = 3

	// workerStatements and workerCommits are those of a worker by a thousand jobs, in claims of up to 1,000 and
	// settles of up to 1,000. Measured: 20 to 33, and 8 to 15; on a busy machine settles are smaller.
	workerStatements = 50
	workerCommits    = 25

	// idleStatements are those by minute of a worker with nothing to do, and of its scheduler. Measured: 779.
	idleStatements = 1100
)

// What a process has, however many queues it serves.
const (
	// idleConnections and idleTransactions, by second, are those of a process with nothing to do.
	idleConnections  = 6
	idleTransactions = 5

	// upkeepStatements are the sweeps and folds of a table of jobs by second, whatever the number of processes that
	// serve it. Measured: 4.
	upkeepStatements = 5

	// jobTransactions are those of a process with twenty queues for a job that comes alone. Measured: 3.
	jobTransactions = 8

	// jobStatements are what is sent with the claim and the settle of a job that comes alone. Measured: 5.1 to 5.6; a
	// claim that asks for a queue's rule, every half a second, has two more.
	jobStatements = 7.0

	// busyConnections are those beside the application's pool.
	busyConnections = 8
)

// Allocations by job, in the client: a tenth more than measured.
const (
	workerAllocations  = 24.0 // measured: 21.5
	enqueueAllocations = 68.0 // of one job, with its transaction; measured: 62
	bulkAllocations    = 13.5 // of each of a thousand; measured: 12.1
)
