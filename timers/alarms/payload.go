package alarms

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/txwork/txwork/workqueue/validate"
)

// checkPayload refuses what jsonb refuses, because a statement that fails would abort the application's transaction. It
// also refuses numbers that jsonb would write out with more digits than a payload may have bytes.
func checkPayload(payload json.RawMessage, limit int) error {
	const field = "payload"
	if err := validate.Size(field, len(payload), limit); err != nil {
		return err
	}
	if err := validate.JSON(field, payload); err != nil {
		return err
	}
	return checkTokens(payload, limit)
}

func checkTokens(payload []byte, limit int) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	depth, size := 0, len(payload)
	for {
		token, err := d.Token()
		if err != nil {
			break // the end: validate.JSON has found no error
		}
		switch v := token.(type) {
		case json.Delim:
			if depth += map[json.Delim]int{'[': 1, '{': 1, ']': -1, '}': -1}[v]; depth > MaxPayloadDepth {
				return validate.Errorf("payload", "is nested deeper than %d", MaxPayloadDepth)
			}
		case json.Number:
			if size += exponent(v.String()); size > limit {
				return validate.Errorf("payload", "has numbers that are written out with more than %d digits", limit)
			}
		}
	}
	return nil
}

// maxExponent is larger than the exponent of any floating-point number.
const maxExponent = 400

// exponent returns about how many more digits a number has if it is written without an exponent.
func exponent(number string) int {
	_, text, found := strings.Cut(strings.ToLower(number), "e")
	if !found {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > maxExponent || n < -maxExponent {
		return 1 << 40
	}
	return max(n, -n)
}
