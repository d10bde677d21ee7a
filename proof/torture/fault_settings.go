//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// withDefaults gives new sessions of the database other settings, ends the old sessions, and restores the settings
// after an episode.
func (l *lab) withDefaults(ctx context.Context, settings ...string) error {
	if err := l.alter(ctx, "SET", settings); err != nil {
		return errors.Join(err, l.alter(ctx, "RESET", settings))
	}
	time.Sleep(episode)
	return l.alter(ctx, "RESET", settings)
}

func (l *lab) alter(ctx context.Context, verb string, settings []string) error {
	for _, setting := range settings {
		if verb == "RESET" {
			setting, _, _ = strings.Cut(setting, " ")
		}
		if _, err := l.admin.Exec(ctx, "ALTER DATABASE postgres "+verb+" "+setting); err != nil {
			return err
		}
	}
	if _, err := l.terminate(ctx, 1); err != nil {
		return err
	}
	// Producers get new sessions too.
	_, err := l.admin.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "+
		"'run producers'")
	return err
}

// isolation makes the default isolation level stricter.
type isolation struct{ private }

func (isolation) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	level := []string{"repeatable read", "serializable"}[random.IntN(2)]
	return level, l.withDefaults(ctx, "default_transaction_isolation = '"+level+"'")
}

// badPlans misleads the planner: tables seem to be empty, or indexes expensive or missing.
type badPlans struct{ private }

func (badPlans) strike(ctx context.Context, l *lab, random *rand.Rand) (string, error) {
	settings := [][]string{
		{"enable_indexscan = off", "enable_indexonlyscan = off"},
		{"enable_seqscan = off", "enable_nestloop = off"},
		{"random_page_cost = 10000", "plan_cache_mode = force_generic_plan"},
		{"enable_bitmapscan = off", "enable_hashjoin = off", "enable_mergejoin = off"},
	}[random.IntN(4)]
	_, err := l.admin.Exec(ctx, fmt.Sprintf(`
		DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE relnamespace = '%[1]s'::regnamespace);
		UPDATE pg_class SET reltuples = 0, relpages = 0 WHERE relnamespace = '%[1]s'::regnamespace AND relkind = 'r'`, l.schema))
	if err != nil {
		return "", err
	}
	return strings.Join(settings, ", ") + ", stale statistics", l.withDefaults(ctx, settings...)
}
