//go:build unix

// Proof verifies txwork's guarantees. It is a module of its own, so that nothing of it becomes part of users' programs.
//
//	go run ./proof torture    # all domains under faults, a minute; exit 1 if an invariant was broken
//	go run ./proof series     # the same at full size, for hours
//	go run ./proof mutants    # guards taken out one at a time: every one has to be noticed
//	go run ./proof pictures   # the pictures of the dashboard in docs/pictures
//	go run ./proof pages      # how long pages of the dashboard and reading commands take on many rows
//	go run ./proof viewers    # what pages of the dashboard that are open cost a system at a fixed load
//
// Each of them has --help. They run at the root of the repository.
package main

import (
	"github.com/txwork/txwork/proof/browser"
	"github.com/txwork/txwork/proof/mutation"
	"github.com/txwork/txwork/proof/pages"
	"github.com/txwork/txwork/proof/program"
	"github.com/txwork/txwork/proof/series"
	"github.com/txwork/txwork/proof/torture"
)

func main() {
	program.Main("proof",
		program.Chore{Name: "torture", Short: "all domains under faults, a minute", Run: torture.Command},
		program.Chore{Name: torture.MemberCommand, Run: torture.CommandOfMember},
		program.Chore{Name: "series", Short: "torture at full size, for hours, and the page of its results",
			Run: series.Run},
		program.Chore{Name: "mutants", Short: "guards taken out one at a time, each of which has to be noticed",
			Run: mutation.Run},
		program.Chore{Name: "pictures", Short: "the pictures of the dashboard in docs/pictures", Run: browser.Pictures},
		program.Chore{Name: "pages", Short: "how long pages of the dashboard and reading commands take on many rows",
			Run: pages.Run},
		program.Chore{Name: "viewers", Short: "what pages of the dashboard that are open cost a system at a fixed load",
			Run: pages.Viewers},
	)
}
