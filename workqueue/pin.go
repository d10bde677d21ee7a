package workqueue

import (
	"fmt"
	"strings"
)

// The plan settings hold for one transaction or, where that is the caller's, for one statement. They
// are set by set_config and not by SET, so that they can share a round trip and a pooler's connection.
var (
	pinText     = "SELECT " + eachSetting(setSetting)
	pinLazyText = pinText + ", " + setSetting("synchronous_commit", "off")

	// The settings are read in a materialised part, so before they are changed.
	savePinText = "WITH b AS MATERIALIZED (SELECT " + eachSetting(readSetting) + ")" +
		" SELECT b.*, " + eachSetting(setSetting) + " FROM b"
)

func eachSetting(render func(name, value string) string) string {
	parts := make([]string, len(planSettings))
	for i, s := range planSettings {
		parts[i] = render(s.name, s.value)
	}
	return strings.Join(parts, ", ")
}

func readSetting(name, _ string) string {
	return fmt.Sprintf("current_setting('%s') AS %s", name, name)
}

func setSetting(name, value string) string {
	return fmt.Sprintf("set_config('%s', '%s', true)", name, value)
}

// pinCall sets our plan settings in the caller's transaction and keeps the caller's in before.
func pinCall(before *[]string) call {
	return call{
		statement: statement{name: "pin", text: savePinText},
		row: func(scan func(...any) error) error {
			values := make([]string, 2*len(planSettings))
			dest := make([]any, len(values))
			for i := range values {
				dest[i] = &values[i]
			}
			*before = values[:len(planSettings)]
			return scan(dest...)
		},
	}
}

// unpinCall gives the caller's transaction the settings back that pinCall found.
func unpinCall(before []string) call {
	c := call{args: map[string]any{}}
	c.name = "unpin"
	sets := make([]string, len(planSettings))
	for i, s := range planSettings {
		sets[i] = fmt.Sprintf("set_config('%s', $%d::text, true)", s.name, i+1)
		c.params = append(c.params, s.name)
		c.args[s.name] = before[i]
	}
	c.text = "SELECT " + strings.Join(sets, ", ")
	return c
}
