package webui

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/doctor"
	"github.com/txwork/txwork/internal/survey"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/reaper"
)

// A maintenancePage is what maintenance.html shows.
type maintenancePage struct {
	Tables  []maintained
	Leaders string // why it is not known who maintains the tables

	All     bool // the user sees what concerns the server, too
	Holders []reaper.Holder
	Hidden  int64  // sessions of others that may hold back vacuum
	Horizon string // why these could not be read

	Migrations []migrations.Status // the newest first
	Pending    int
	Version    string // why these could not be read
	Schema     []doctor.Finding
	Looking    bool             // the doctor has not looked yet
	Unlooked   string           // why it could not look at all
	Unseen     []doctor.Skipped // differences that it could not look for
}

// A maintained is a table and its last maintenance.
type maintained struct {
	*survey.Facts
	Leader  *survey.Leader
	Ended   survey.Ended
	Problem string
	found   []doctor.Finding // in any table
}

// Found tells whether the doctor last found something in the table, such as bloat.
func (m maintained) Found(code string) bool {
	return slices.ContainsFunc(m.found, func(f doctor.Finding) bool { return f.Code == code && f.Table == m.Name })
}

// maintenance shows who maintains the tables, and what keeps them from being maintained.
func maintenance(ctx context.Context, r *request) (view, error) {
	v := view{title: "Maintenance", page: "maintenance.html"}
	all, err := r.sections(ctx, &v, func(*survey.Facts) bool { return true })
	if err != nil {
		return view{}, err
	}
	p := maintenancePage{All: r.user.seesAll()}
	leaders, err := survey.Leaders(ctx, r.handler.reader(), r.handler.Schema)
	if err != nil {
		p.Leaders = r.handler.explain(ctx, "leaders", err).Error()
	}
	last, _ := r.handler.figures.begin()
	for _, t := range all {
		one := maintained{Facts: t}
		if last != nil {
			one.found = last.Report.Findings
		}
		leads := func(l survey.Leader) bool { return l.Table == t.Schema+"."+t.Name }
		if i := slices.IndexFunc(leaders, leads); i >= 0 {
			one.Leader = &leaders[i]
		}
		if one.Ended, err = survey.OldestEnded(ctx, r.handler.reader(), t); err != nil {
			one.Problem = r.handler.explain(ctx, "retention of "+t.Name, err).Error()
		}
		p.Tables = append(p.Tables, one)
	}
	if p.All {
		p.server(ctx, r.handler)
		p.differences(last)
	}
	v.data = p
	return v, nil
}

// server reads what concerns the server and the schema as a whole.
func (p *maintenancePage) server(ctx context.Context, h *handler) {
	err := h.reader().Read(ctx, func(tx pgx.Tx) (err error) {
		p.Holders, p.Hidden, err = reaper.Holders(ctx, tx)
		return err
	})
	if err != nil {
		p.Horizon = h.explain(ctx, "transactions", err).Error()
	}
	p.Holders = p.Holders[:min(len(p.Holders), maxHolders)]
	if err := p.readMigrations(ctx, h); err != nil {
		p.Version = h.explain(ctx, "migrations", err).Error()
	}
}

// differences are what the doctor last found between the schema and the migrations.
func (p *maintenancePage) differences(last *reading) {
	if p.Looking = last == nil || last.ExaminedAt.IsZero(); p.Looking {
		return
	}
	p.Unlooked = last.Problem
	for _, f := range last.Report.Findings {
		if slices.Contains(schemaFindings, f.Code) {
			p.Schema = append(p.Schema, f)
		}
	}
	for _, s := range last.Report.Skipped {
		if slices.Contains(schemaFindings, s.Check) {
			p.Unseen = append(p.Unseen, s)
		}
	}
}

// maxHolders is how many transactions that hold back vacuum are shown.
const maxHolders = 50

// schemaFindings are about differences between the schema and the migrations.
var schemaFindings = []string{"schema", "invalid-index", "claim-scan", "sequence-behind", "public-rights",
	"side-policies"}

func (p *maintenancePage) readMigrations(ctx context.Context, h *handler) error {
	m, err := migrations.New(h.Pool, migrations.Options{Schema: h.Schema})
	if err != nil {
		return err
	}
	if p.Migrations, err = m.Status(ctx); err != nil {
		return err
	}
	slices.Reverse(p.Migrations)
	for _, one := range p.Migrations {
		if !one.Applied {
			p.Pending++
		}
	}
	return nil
}
