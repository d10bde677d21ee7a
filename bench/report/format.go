package report

import (
	"strconv"
	"strings"
)

// count writes whole numbers with a comma every three digits.
func count(v float64) string {
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	var parts []string
	for len(digits) > 3 {
		parts = append([]string{digits[len(digits)-3:]}, parts...)
		digits = digits[:len(digits)-3]
	}
	return strings.Join(append([]string{digits}, parts...), ",")
}

// millis writes times of any size with what is of interest in them.
func millis(v float64) string {
	if v >= 100 {
		return count(v)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// ratio writes how many times one is the other.
func ratio(v float64) string {
	if v >= 10 {
		return count(v)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// known writes a number that may be unknown.
func known(v *float64) string {
	switch {
	case v == nil:
		return "–"
	case *v < 10:
		return strconv.FormatFloat(*v, 'f', 1, 64)
	default:
		return count(*v)
	}
}
