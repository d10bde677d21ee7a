package input

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// MaxDuration is ten years, the core's limit.
const MaxDuration = 10 * 365 * 24 * time.Hour

var errDuration = errors.New("want a length of time such as 90d or 36h, up to ten years")

// Duration reads a duration written by a person: in days or weeks, such as 90d or 2w, or in the format of
// [time.ParseDuration].
func Duration(text string) (time.Duration, error) {
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			n, err := strconv.ParseUint(number, 10, 16)
			if err != nil || time.Duration(n) > MaxDuration/unit {
				return 0, errDuration
			}
			return time.Duration(n) * unit, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > MaxDuration {
		return 0, errDuration
	}
	return d, nil
}
