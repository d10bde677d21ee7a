package report

import (
	"strconv"
	"strings"
)

// count formats whole numbers with a comma every three digits.
func count(v float64) string {
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	var parts []string
	for len(digits) > 3 {
		parts = append([]string{digits[len(digits)-3:]}, parts...)
		digits = digits[:len(digits)-3]
	}
	return strings.Join(append([]string{digits}, parts...), ",")
}

// millis formats times with a precision that depends on their size.
func millis(v float64) string {
	if v >= 100 {
		return count(v)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// ratio formats how many times as large one value is as another.
func ratio(v float64) string {
	if v >= 10 {
		return count(v)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// known formats a number that may be unknown.
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
