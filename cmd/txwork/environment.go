package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// inherited returns what commands inherit of the process's environment: all but what lets into the database, which is
// none of the handlers' business. These are the variables that name the database, those that the URL was made of, and
// any other that holds a URL with the same password.
func inherited(environ []string, madeOf []string, config *pgx.ConnConfig) []string {
	secret := append([]string{databaseURLEnv, "PGPASSWORD"}, madeOf...)
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return slices.Contains(secret, name) || leadsTo(value, config)
	})
}

// leadsTo reports whether a text is a URL or a list of settings with the password of the database.
func leadsTo(text string, config *pgx.ConnConfig) bool {
	if config == nil || config.Password == "" {
		return false
	}
	if u, err := url.Parse(text); err == nil && u.Scheme != "" {
		password, _ := u.User.Password()
		return password == config.Password || u.Query().Get("password") == config.Password
	}
	return strings.Contains(text, "password="+config.Password) ||
		strings.Contains(text, "password='"+config.Password+"'")
}

// environment returns the variables that describe a task.
func environment(t task) ([]string, error) {
	headers := t.headers
	if headers == nil {
		headers = map[string]string{}
	}
	encoded, err := json.Marshal(headers)
	if err != nil {
		return nil, err
	}
	return append([]string{
		variable("TXWORK_ID", t.id),
		variable("TXWORK_TOPIC", t.topic),
		variable("TXWORK_KEY", t.key),
		variable("TXWORK_ATTEMPT", strconv.Itoa(t.attempt)),
		variable("TXWORK_HEADERS", string(encoded)),
	}, t.also...), nil
}

func variable(name, value string) string { return name + "=" + value }

// tooLarge explains that the system did not start a command because its arguments and its environment are too large.
// If that is because of the task, it will be so on every attempt.
func tooLarge(own, ofTask []string, err error) error {
	var largest string
	task, all := 0, 0
	for _, v := range ofTask {
		task += len(v)
		if len(v) > len(largest) {
			largest = v
		}
	}
	for _, v := range own {
		all += len(v)
	}
	name, value, _ := strings.Cut(largest, "=")
	if task >= all {
		return workqueue.Permanent(fmt.Errorf("%w: %s has %d bytes, more than the system hands over in an "+
			"environment: keep headers small, or deliver by http: %w", errPermanent, name, len(value), err))
	}
	return fmt.Errorf("%w: the worker's own environment and the command's arguments have %d bytes, which is too much "+
		"for the system: %w", errAttempt, all, err)
}
