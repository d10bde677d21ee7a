package jobs

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/txwork/txwork/workqueue/validate"
)

// Limits of [Unique].Fields.
const (
	// MaxFields is how many fields there may be.
	MaxFields = 16
	// MaxFieldName and MaxFieldText are the largest lengths of a name and of a text, in bytes.
	MaxFieldName = 63
	MaxFieldText = 1024
	// MaxFieldDigits is how many digits a number may have on each side of its point.
	MaxFieldDigits = 38
)

// hash is a SHA-256 as it is stored in keys.
func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// canonical returns the form of fields of which the key is a hash. It is that of the SQL function jobs_unique_hash and
// of programs in other languages, see docs/sql.md: it must never change.
func canonical(fields map[string]any) ([]byte, error) {
	if len(fields) == 0 || len(fields) > MaxFields {
		return nil, validate.Errorf("Unique.Fields", "has %d fields, want 1 to %d", len(fields), MaxFields)
	}
	var form []byte
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err := checkFieldText(name, MaxFieldName); err != nil || name == "" {
			return nil, validate.Errorf("Unique.Fields", "has the name %q, want valid UTF-8 of 1 to %d bytes without NUL",
				name, MaxFieldName)
		}
		typ, value, err := canonicalValue(fields[name])
		if err != nil {
			return nil, validate.Errorf("Unique.Fields", "has the field %q, which %v", name, err)
		}
		form = fmt.Appendf(form, "%d:%s%c%d:%s", len(name), name, typ, len(value), value)
	}
	return form, nil
}

// canonicalValue returns a value's letter and its text. Types of the application count as what they are made of.
func canonicalValue(value any) (typ byte, text string, err error) {
	if n, ok := value.(json.Number); ok {
		text, err = canonicalNumber(n.String())
		return 'n', text, err
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Invalid:
		return 'z', "", nil
	case reflect.Bool:
		return 'b', strconv.FormatBool(v.Bool()), nil
	case reflect.String:
		return 's', v.String(), checkFieldText(v.String(), MaxFieldText)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return 'n', strconv.FormatInt(v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return 'n', strconv.FormatUint(v.Uint(), 10), nil
	case reflect.Float32, reflect.Float64:
		text, err = canonicalNumber(strconv.FormatFloat(v.Float(), 'e', -1, v.Type().Bits()))
		return 'n', text, err
	}
	return 0, "", fmt.Errorf("is a %T, want a text, a number, true, false or nil", value)
}

func checkFieldText(text string, limit int) error {
	switch {
	case len(text) > limit:
		return fmt.Errorf("has %d bytes, want at most %d", len(text), limit)
	case !utf8.ValidString(text):
		return fmt.Errorf("is no valid UTF-8")
	case strings.ContainsRune(text, 0):
		return fmt.Errorf("has the character NUL, which the database cannot store")
	}
	return nil
}

// jsonNumber is a number of JSON: its sign, the digits before and behind the point, and its exponent.
var jsonNumber = regexp.MustCompile(`^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$`)

// canonicalNumber writes out a decimal number without changing its value. It works on the digits, because an exponent
// may name a number that is too large to compute.
func canonicalNumber(text string) (string, error) {
	m := jsonNumber.FindStringSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("is the number %.50q, want one of JSON, which has no infinity and no NaN", text)
	}
	digits := strings.TrimLeft(m[2]+m[3], "0")
	if digits == "" {
		return "0", nil
	}
	exponent, err := strconv.ParseInt(cmp.Or(m[4], "0"), 10, 32)
	shift := int(exponent) - len(m[3]) // the value is digits × 10^shift
	trimmed := strings.TrimRight(digits, "0")
	shift += len(digits) - len(trimmed)
	whole := len(trimmed) + shift // digits before the point
	if err != nil || max(whole, -shift) > MaxFieldDigits {
		return "", fmt.Errorf("is a number with more than %d digits before or behind its point", MaxFieldDigits)
	}
	switch {
	case shift >= 0:
		return m[1] + trimmed + strings.Repeat("0", shift), nil
	case whole > 0:
		return m[1] + trimmed[:whole] + "." + trimmed[whole:], nil
	}
	return m[1] + "0." + strings.Repeat("0", -whole) + trimmed, nil
}
