package main

import (
	"context"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// write enqueues everything that a tenant has, as its application does. A schedule needs the worker's role.
func write(ctx context.Context, client *jobs.Client, logins *logins, tenant string) error {
	err := inTx(ctx, logins.as("producer", tenant), func(tx workqueue.Tx) error {
		if _, err := client.EnqueueMany(ctx, tx, inserts(tenant)...); err != nil {
			return err
		}
		after := printOf(tenant, 0, nil)
		batch := jobs.Batch{Label: "the secret of " + tenant, OnComplete: &after}
		for range steps {
			batch.Jobs = append(batch.Jobs, printOf(tenant, 0, nil))
		}
		_, err := client.StartBatch(ctx, tx, batch)
		return err
	})
	if err != nil {
		return err
	}
	return inTx(ctx, logins.as("worker", tenant), func(tx workqueue.Tx) error {
		return client.Schedules().Put(ctx, tx, jobs.Schedule{Name: tenant + ":pulse", Expr: "@every 1s", Queue: tenant,
			Args: Print{Tenant: tenant}})
	})
}

func inserts(tenant string) (list []jobs.Insert) {
	for range plain {
		list = append(list, printOf(tenant, 0, nil))
	}
	for turn := range int64(ordered) {
		list = append(list, printOf(tenant, turn+1, keyed.Ordered{Key: tenant + ":press"}))
	}
	for range limited {
		list = append(list, printOf(tenant, 0, keyed.Limited{Key: tenant + ":ink", MaxRunning: 2}))
	}
	return list
}

func printOf(tenant string, turn int64, rule keyed.Rule) jobs.Insert {
	return jobs.Insert{Args: Print{Tenant: tenant, Turn: turn}, Queue: tenant,
		ByKey: rule}
}
