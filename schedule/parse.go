package schedule

import (
	"strings"
	"time"
	"unicode"
)

const maxExpr = 1000

var descriptors = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// Parse reads an expression of five fields, a descriptor or an "@every", in an IANA zone. The empty zone is UTC. The
// error is an [*Error]. Among others, Parse refuses expressions of more than 1000 bytes, zones that do not exist, the
// zone "Local", because it differs between machines, and dates that never occur, such as 30 February.
func Parse(expr, zone string) (*Schedule, error) {
	if len(expr) > maxExpr {
		return nil, refuse(expr, "expression", "is longer than %d bytes", maxExpr)
	}
	location, err := loadZone(expr, zone)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(expr)
	s := &Schedule{expr: strings.Join(words, " "), zone: location}
	switch {
	case strings.ContainsFunc(expr, func(r rune) bool { return r > unicode.MaxASCII }):
		return nil, refuse(expr, "expression", "has a character that is not ASCII")
	case len(words) == 0:
		return nil, refuse(expr, "expression", "is empty")
	case strings.EqualFold(words[0], "@every"):
		err = s.parseInterval(words[1:])
	case strings.HasPrefix(words[0], "@"):
		err = s.parseDescriptor(words)
	default:
		err = s.parseFields(words)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Schedule) parseInterval(words []string) error {
	interval, err := time.ParseDuration(strings.Join(words, " "))
	switch {
	case err != nil:
		return refuse(s.expr, "interval", "is not a duration such as 90s, 5m or 1h30m")
	case interval < time.Second:
		return refuse(s.expr, "interval", "is less than a second")
	case interval%time.Second != 0:
		return refuse(s.expr, "interval", "is not a number of whole seconds")
	}
	s.interval = interval
	return nil
}

func (s *Schedule) parseDescriptor(words []string) error {
	name := strings.ToLower(words[0])
	fields, known := descriptors[name]
	switch {
	case name == "@reboot":
		return refuse(s.expr, "expression", "@reboot is not a time: run what has to run at the start of a process "+
			"from that process")
	case !known:
		return refuse(s.expr, "expression", "is not a descriptor: those are @yearly, @annually, @monthly, @weekly, "+
			"@daily, @midnight, @hourly and @every")
	case len(words) > 1:
		return refuse(s.expr, "expression", "has something after %s", name)
	}
	return s.parseFields(strings.Fields(fields))
}

func (s *Schedule) parseFields(words []string) error {
	if err := s.checkCount(words); err != nil {
		return err
	}
	var sets [5]uint64
	for i, word := range words {
		set, reason := fields[i].parse(word)
		if reason != "" {
			return refuse(s.expr, fields[i].name, "%s", reason)
		}
		sets[i] = set
	}
	s.calendar = calendar{
		minutes: sets[0], hours: sets[1], days: sets[2], months: sets[3], weekdays: sets[4]&^(1<<7) | sets[4]>>7,
		eitherDay: !strings.HasPrefix(words[2], "*") && !strings.HasPrefix(words[4], "*"),
	}
	s.fixed = !strings.ContainsAny(words[1], "*/") && sets[1] != 1<<24-1
	if !s.calendar.everFires() {
		return refuse(s.expr, "day-of-month", "never comes in the months that are named")
	}
	return nil
}

func (s *Schedule) checkCount(words []string) error {
	switch {
	case strings.Contains(words[0], "TZ="):
		return refuse(s.expr, "expression", "begins with a zone, which is given separately")
	case len(words) == 6 || len(words) == 7:
		return refuse(s.expr, "expression", "has %d fields instead of 5 (%s): there are no seconds and no years; for "+
			"seconds use @every", len(words), fieldNames)
	case len(words) != 5:
		return refuse(s.expr, "expression", "has %d fields instead of 5 (%s)", len(words), fieldNames)
	}
	return nil
}
