package security_test

import (
	"slices"
	"testing"
)

// protocol are calls of the functions of a domain, with the roles that may make them. They are of rows that are not
// there, so whoever may call them gets no row, or the error of a row that is lost.
var protocol = map[string][]string{
	"timers_cancel('{none}')":                          {"producer", "worker"},
	"timers_get('none')":                               {"producer", "worker", "viewer", "operator"},
	"jobs_pause('none')":                               {"worker", "operator"},
	"jobs_resume('none')":                              {"worker", "operator"},
	"jobs_limit('none', 1)":                            {"worker", "operator"},
	"jobs_steps(gen_random_uuid(), gen_random_uuid())": {"worker"},
	"jobs_put_step(gen_random_uuid(), gen_random_uuid(), 's', '1')":       {"worker"},
	"jobs_put_step(gen_random_uuid(), gen_random_uuid(), 's', ''::bytea)": {"worker"},
	"jobs_progress(gen_random_uuid(), gen_random_uuid(), 1)":              {"worker"},
	"jobs_output(gen_random_uuid(), gen_random_uuid(), '1')":              {"worker"},
	"jobs_output(gen_random_uuid(), gen_random_uuid(), ''::bytea)":        {"worker"},
	"jobs_complete(gen_random_uuid(), gen_random_uuid(), '1'::jsonb)":     {"worker"},
	"jobs_complete(gen_random_uuid(), gen_random_uuid(), ''::bytea)":      {"worker"},
}

func TestWhoMayCallWhat(t *testing.T) {
	f := newFixture(t)
	for _, role := range []string{"producer", "worker", "viewer", "operator"} {
		pool := f.as(role)
		for call, may := range protocol {
			if !slices.Contains(may, role) {
				f.refuses(pool, forbidden, "SELECT * FROM "+call)
				continue
			}
			if err := tryExec(t.Context(), pool, "SELECT * FROM "+call); err != nil {
				f.isRefused("TXL01", role+": "+call, err)
			}
		}
	}
}
