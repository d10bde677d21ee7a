package periodic

import "github.com/txwork/txwork/workqueue"

// Beside are the options of a scheduler that runs beside a worker: it reaches the database and stops as that
// does.
func Beside(o workqueue.WorkerOptions) SchedulerOptions {
	return SchedulerOptions{WorkerOptions: workqueue.WorkerOptions{
		PollInterval:    o.PollInterval,
		ShutdownTimeout: o.ShutdownTimeout,
		Redact:          o.Redact,
		NoListen:        o.NoListen,
		ListenConfig:    o.ListenConfig,
		Runtime:         o.Runtime,
	}}
}
