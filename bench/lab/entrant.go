package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/txwork/txwork/bench/protocol"
	"github.com/txwork/txwork/bench/results"
)

// An entrant is a peer with a profile.
type entrant struct {
	results.Entrant
	bounds
	command           []string
	retained, deleted protocol.Description
}

// mode returns whether done jobs are deleted in a workload, and whether the peer can do the workload at all.
func (e entrant) mode(w results.Workload) (deleted, can bool) {
	can = !slices.Contains(e.without, w)
	switch w {
	case results.Drain, results.Processes:
		return false, can && e.retained.Retained
	case results.DrainDeleted:
		return true, can && e.retained.Deleted
	default:
		return !e.retained.Retained, can
	}
}

func (e entrant) description(deleted bool) protocol.Description {
	if deleted {
		return e.deleted
	}
	return e.retained
}

// entrants prepares the wanted peers of a list, or all, and asks them to describe themselves. A peer that cannot be run
// here is an error, unless it may be skipped: then skip is called.
func (l *Lab) entrants(ctx context.Context, list []peer, wanted []string, maySkip bool,
	skip func(name string, err error)) ([]entrant, error) {
	var all []entrant
	for _, p := range list {
		profile, want := wantedProfile(wanted, p.name)
		if !want {
			continue
		}
		some, err := l.describe(ctx, p, profile)
		switch {
		case err == nil:
			all = append(all, some...)
		case ctx.Err() != nil || !maySkip:
			return nil, fmt.Errorf("%s: %w", p.name, err)
		default:
			skip(p.name, err)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("none of the peers can be run here")
	}
	return all, nil
}

func checkNames(list []peer, wanted []string) error {
	for _, w := range wanted {
		name, _, _ := strings.Cut(w, ":")
		if !slices.ContainsFunc(list, func(p peer) bool { return p.name == name }) {
			return fmt.Errorf("there is no peer %q", name)
		}
	}
	return nil
}

// wantedProfile returns the wanted profiles of a peer; none means all.
func wantedProfile(wanted []string, name string) (profiles []string, want bool) {
	for _, w := range wanted {
		peer, profile, one := strings.Cut(w, ":")
		if peer != name {
			continue
		}
		if !one {
			return nil, true
		}
		profiles = append(profiles, profile)
	}
	return profiles, len(wanted) == 0 || len(profiles) > 0
}

func (l *Lab) describe(ctx context.Context, p peer, profiles []string) ([]entrant, error) {
	if err := p.ready(ctx, l); err != nil {
		return nil, err
	}
	command := p.command(l)
	retained, err := ask(ctx, command, false)
	if err != nil {
		return nil, err
	}
	deleted, err := ask(ctx, command, true)
	if err != nil {
		return nil, err
	}
	if len(profiles) == 0 {
		profiles = slices.Sorted(maps.Keys(retained.Profiles))
	}
	var some []entrant
	for _, profile := range profiles {
		if _, found := retained.Profiles[profile]; !found {
			return nil, fmt.Errorf("there is no profile %q", profile)
		}
		some = append(some, entrant{results.Entrant{Peer: p.name, Profile: profile}, p.bounds[profile], command,
			retained, deleted})
	}
	return some, nil
}

// ask lets a peer describe itself in one of the two modes.
func ask(ctx context.Context, command []string, deleted bool) (protocol.Description, error) {
	e, _, err := do(ctx, command, protocol.Describe, protocol.Config{Deleted: deleted}, protocol.Described)
	switch {
	case err != nil:
		return e.Description, err
	case len(e.Profiles) == 0 || e.UnfinishedSQL == "" || !e.Retained && !e.Deleted:
		return e.Description, errors.New("its description lacks profiles, unfinished_sql or a mode")
	}
	return e.Description, nil
}
