package main

import (
	"strconv"

	"github.com/spf13/pflag"
)

// exactFlag adds the flag of commands that count a bounded number of rows unless they are asked for all.
func exactFlag(flags *pflag.FlagSet) *bool {
	return flags.Bool("exact", false, exactMeaning)
}

const exactMeaning = "count all rows, which takes long in large tables"

// moreThanCounted explains numbers of [atLeast].
const moreThanCounted = "+: at least so many; --exact counts all rows"

// atLeast formats a number of rows that may be a lower bound.
func atLeast(n int64, more bool) string {
	text := strconv.FormatInt(n, 10)
	if more {
		text += "+"
	}
	return text
}

// leastOf begins, and exactly ends, a line about rows of which there may be more.
func leastOf(more bool) string {
	if more {
		return "at least "
	}
	return ""
}

func exactly(more bool) string {
	if more {
		return "; --exact counts all of them"
	}
	return ""
}
