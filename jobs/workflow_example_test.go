package jobs_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

type fetchPage struct{ URL string }

func (fetchPage) Kind() string { return "page.fetch" }

type indexSite struct{ Site string }

func (indexSite) Kind() string { return "site.index" }

type closeTicket struct{ Number int }

func (closeTicket) Kind() string { return "ticket.close" }

// Two pages are fetched side by side. Then the site is indexed from their recorded outputs. The ticket is closed
// whatever the outcome.
func ExampleClient_StartWorkflow() {
	registry := jobs.NewRegistry()
	jobs.Register(registry, func(ctx context.Context, job *jobs.Job[fetchPage]) error {
		return job.Output(ctx, "the text of "+job.Args.URL)
	}, jobs.KindOptions[fetchPage]{})
	jobs.Register(registry, func(ctx context.Context, job *jobs.Job[indexSite]) error {
		front, err := jobs.OutputOf[string](ctx, job, "front")
		if err != nil {
			return err
		}
		fmt.Println(front)
		return nil
	}, jobs.KindOptions[indexSite]{})
	jobs.Register(registry, func(ctx context.Context, job *jobs.Job[closeTicket]) error {
		tasks, err := job.Dependencies(ctx)
		if err != nil {
			return err
		}
		for _, task := range tasks {
			fmt.Println(task.Name, task.Status, task.LastError)
		}
		return nil
	}, jobs.KindOptions[closeTicket]{})

	start := func(ctx context.Context, pool *pgxpool.Pool, client *jobs.Client) error {
		w := jobs.NewWorkflow("index example.com")
		front := w.Task("front", jobs.Insert{Args: fetchPage{URL: "https://example.com"}})
		about := w.Task("about", jobs.Insert{Args: fetchPage{URL: "https://example.com/about"}})
		index := w.Task("index", jobs.Insert{Args: indexSite{Site: "example.com"}}, jobs.After(front, about))
		w.Task("close", jobs.Insert{Args: closeTicket{Number: 7}}, jobs.After(index), jobs.WithPolicy(join.AnyOutcome))
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := client.StartWorkflow(ctx, workqueue.Pgx(tx), w)
			return err
		})
	}
	_ = start
}

// A batch of mails is followed by a report when every mail has been sent or has failed for good.
func ExampleClient_StartBatch() {
	start := func(ctx context.Context, tx pgx.Tx, client *jobs.Client, addresses []string) error {
		b := jobs.Batch{
			Label:      "newsletter",
			OnComplete: &jobs.Insert{Args: report{Month: 11}},
			Policy:     join.AnyOutcome,
		}
		for _, to := range addresses {
			b.Jobs = append(b.Jobs, jobs.Insert{Args: mail{To: to}})
		}
		_, err := client.StartBatch(ctx, workqueue.Pgx(tx), b)
		return err
	}
	_ = start
}
