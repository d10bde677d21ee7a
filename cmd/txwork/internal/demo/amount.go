package demo

import (
	"errors"
	"strconv"
	"strings"
)

// Amounts are whole hundredths, as in a bank's books: with floats, the reconciliation would depend on rounding.

// maxWholeDigits bounds one amount to 9,999,999,999.99, of which nine million fit into an account.
const maxWholeDigits = 10

var errAmount = errors.New("want a positive decimal number with at most 10 digits before the point and 2 after it, " +
	"such as 12 or 12.50")

// parseAmount reads a decimal number as hundredths.
func parseAmount(s string) (int64, error) {
	whole, fraction, pointed := strings.Cut(s, ".")
	if pointed && fraction == "" || len(fraction) > 2 || whole == "" || len(whole) > maxWholeDigits {
		return 0, errAmount
	}
	digits := whole + fraction + strings.Repeat("0", 2-len(fraction))
	if strings.Trim(digits, "0123456789") != "" {
		return 0, errAmount
	}
	amount, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || amount == 0 {
		return 0, errAmount
	}
	return amount, nil
}
