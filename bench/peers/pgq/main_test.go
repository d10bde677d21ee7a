package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPayloadHasItsSize(t *testing.T) {
	for _, bytes := range []int{8, 30, 1000} {
		payload := config{PayloadBytes: bytes}.payload()
		var body struct{ P string }
		if err := json.Unmarshal([]byte(payload), &body); err != nil || len(payload) != bytes {
			t.Errorf("a payload of %d bytes is %s, %v", bytes, payload, err)
		}
	}
}

func TestRunRefusesWhatItCannotMeasure(t *testing.T) {
	for _, c := range []struct{ phase, config, want string }{
		{"latency", "{}", "latency is not measured"},
		{"prepare", `{"profile":"fast"}`, `no profile "fast"`},
		{"work", `{"profile":"bench","deleted":true}`, "no deleted mode"},
		{"work", "", "BENCH_CONFIG"},
	} {
		err := run(t.Context(), []string{c.phase}, c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("run(%s, %s) = %v, want %q", c.phase, c.config, err, c.want)
		}
	}
}
