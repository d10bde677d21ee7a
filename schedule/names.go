package schedule

import (
	"slices"
	"strings"
)

func nameOf(names []string, value int) string {
	if value >= len(names) {
		return "invalid"
	}
	return names[value]
}

func valueOf(names []string, field, name string) (int, error) {
	if name == "" {
		return 0, nil
	}
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	return 0, refuse("", field, "%q is not one of %s", clip(name), strings.Join(names, ", "))
}
