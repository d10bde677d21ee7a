//go:build !unix

package main

import "github.com/spf13/cobra"

// newTortureCommands is nothing here: the faults are signals of Unix.
func newTortureCommands(*app) []*cobra.Command { return nil }
