package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/txwork/txwork/migrations"
)

func TestTheCommandLineKnowsEveryTable(t *testing.T) {
	t.Parallel()
	known, made := slices.Sorted(maps.Keys(domains)), slices.Sorted(slices.Values(migrations.CoreTables()))
	if !slices.Equal(known, made) {
		t.Errorf("list shows the columns of %v, the migrations make %v", known, made)
	}
}
