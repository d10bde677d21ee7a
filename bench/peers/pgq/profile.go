package main

import (
	"context"
	"fmt"
	"time"
)

// A profile is the settings of a queue, its ticker and its consumer.
type profile struct {
	label    string
	settings map[string]string // of the queue, where they differ from PgQ's defaults
	tickFill bool              // tick after each transaction of fill, too
	interval time.Duration     // between two ticks, and between two polls of an idle consumer
}

const contract = "one consumer on next_batch, get_batch_events, finish_batch; a batch is acknowledged as a whole and " +
	"there is no state of a single job, so this is another contract than a job queue's; events stay until rotation"

var profiles = map[string]profile{
	"bench": {
		label: "ticker_max_lag 0; ticker() after each transaction of insert_event and every 20 ms while working, so " +
			"a batch is a transaction of fill; " + contract,
		settings: map[string]string{"ticker_max_lag": "0 seconds"},
		tickFill: true,
		interval: 20 * time.Millisecond,
	},
	"defaults": {
		label: "a tick after 500 events or 3 s, ticker() every second while working, as pgqd calls it, so what is " +
			"filled before is one batch; " + contract,
		interval: time.Second,
	},
}

func (c config) profile() (profile, error) {
	p, found := profiles[c.Profile]
	if !found {
		return p, fmt.Errorf("there is no profile %q", c.Profile)
	}
	return p, nil
}

// unfinishedSQL counts the events that the consumer has not acknowledged, which are those that its last tick did not
// see. There is only one queue, so all children of the template are its tables.
const unfinishedSQL = `SELECT count(*) FROM pgq.event_template e, pgq.subscription s JOIN pgq.tick t ` +
	`ON t.tick_queue = s.sub_queue AND t.tick_id = s.sub_last_tick ` +
	`WHERE NOT txid_visible_in_snapshot(e.ev_txid, t.tick_snapshot)`

func describe(context.Context, config) error {
	labels := map[string]string{}
	for name, p := range profiles {
		labels[name] = p.label
	}
	return say(map[string]any{
		"event": "peer", "name": "PgQ", "version": version, "profiles": labels,
		"retained": true, "deleted": false, "unfinished_sql": unfinishedSQL,
	})
}
