package main

import "github.com/spf13/cobra"

// examples are those of the commands whose usage one or two lines show. Commands with more to say have them beside
// their flags.
var examples = map[string]string{
	"txwork demo": `  txwork demo
  txwork demo --transfers 20000 --json`,
	"txwork bench cron":        `  txwork bench cron`,
	"txwork bench crowd":       `  txwork bench crowd --kind paused`,
	"txwork bench drain":       `  txwork bench drain --jobs 100000 --processes 2`,
	"txwork bench enqueue":     `  txwork bench enqueue --jobs 100000`,
	"txwork bench latency":     `  txwork bench latency`,
	"txwork bench retained":    `  txwork bench retained`,
	"txwork bench steady":      `  txwork bench steady`,
	"txwork bench timers":      `  txwork bench timers`,
	"txwork migrate validate":  `  txwork migrate validate > mend.sql`,
	"txwork outbox unblock":    `  txwork outbox unblock 0198f3a2-6c1e-7b44-9a52-0d5f0c6b7e11`,
	"txwork timers list":       `  txwork timers list --prefix trial/`,
	"txwork timers cancel":     `  txwork timers cancel trial/4711 trial/4712`,
	"txwork schedules list":    `  txwork schedules list --prefix report`,
	"txwork schedules pause":   `  txwork schedules pause report`,
	"txwork schedules resume":  `  txwork schedules resume report`,
	"txwork schedules trigger": `  txwork schedules trigger report`,
	"txwork schedules delete":  `  txwork schedules delete report`,
	"txwork jobs list":         `  txwork jobs list --queue mail --status failed`,
	"txwork jobs show":         `  txwork jobs show 0198f3a2-6c1e-7b44-9a52-0d5f0c6b7e11`,
	"txwork jobs queues":       `  txwork jobs queues`,
	"txwork jobs pause":        `  txwork jobs pause mail`,
	"txwork jobs resume":       `  txwork jobs resume mail`,
	"txwork reap": `  txwork reap
  txwork reap outbox jobs --json`,
	"txwork show": `  txwork show outbox 0198f3a2-6c1e-7b44-9a52-0d5f0c6b7e11 --payload`,
}

// addExamples gives the commands their examples.
func addExamples(cmd *cobra.Command) {
	if text, found := examples[cmd.CommandPath()]; found {
		cmd.Example = text
	}
	for _, sub := range cmd.Commands() {
		addExamples(sub)
	}
}
