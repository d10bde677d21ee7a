package protocol_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/txwork/txwork/bench/protocol"
)

func TestConfigSurvivesTheEnvironment(t *testing.T) {
	want := protocol.Config{DatabaseURL: "postgres://h/d?a=b", Profile: "bench", Deleted: true, Jobs: 7,
		PayloadBytes: 30, Batch: 5, Connections: 8, Seconds: 1.5, Concurrency: 3, Processes: 4}
	name, value, _ := strings.Cut(want.Env(), "=")
	if name != protocol.ConfigEnv {
		t.Errorf("the variable is %s, want %s", name, protocol.ConfigEnv)
	}
	got, err := protocol.ParseConfig(value)
	if err != nil || got != want {
		t.Errorf("ParseConfig(%s) = %+v, %v; want %+v", value, got, err, want)
	}
}

func TestParseConfigRefusesWhatIsNotJSON(t *testing.T) {
	if _, err := protocol.ParseConfig(""); err == nil || !strings.Contains(err.Error(), protocol.ConfigEnv) {
		t.Errorf("error %v, want one that names %s", err, protocol.ConfigEnv)
	}
}

func TestReadParsesEveryKindOfEvent(t *testing.T) {
	const lines = `{"event":"peer","name":"River","version":"v1","profiles":{"bench":"2,000 workers"},"retained":true,"unfinished_sql":"SELECT 1"}

{"event":"filled","jobs":5,"seconds":0.5}
{"event":"started"}
{"event":"handled","jobs":5}
{"event":"latencies","ms":[1.5,2]}
`
	want := []protocol.Event{
		{Kind: protocol.Described, Description: protocol.Description{Name: "River", Version: "v1",
			Profiles: map[string]string{"bench": "2,000 workers"}, Retained: true, UnfinishedSQL: "SELECT 1"}},
		{Kind: protocol.Filled, Jobs: 5, Seconds: 0.5},
		{Kind: protocol.Started},
		{Kind: protocol.Handled, Jobs: 5},
		{Kind: protocol.Latencies, Millis: []float64{1.5, 2}},
	}
	var got []protocol.Event
	err := protocol.Read(strings.NewReader(lines), func(e protocol.Event) error { got = append(got, e); return nil })
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Read: %v\n got %+v\nwant %+v", err, got, want)
	}
}

func TestReadRefusesLogsAmongEvents(t *testing.T) {
	for _, line := range []string{"worker started", `{"level":"info"}`, `["event"]`} {
		err := protocol.Read(strings.NewReader(line), func(protocol.Event) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "is not an event") {
			t.Errorf("Read(%s): error %v", line, err)
		}
	}
}

func TestReadStopsAtTheHandlersError(t *testing.T) {
	stop := errors.New("enough")
	err := protocol.Read(strings.NewReader("{\"event\":\"started\"}\n{\"event\":\"handled\"}\n"),
		func(e protocol.Event) error {
			if e.Kind != protocol.Started {
				t.Errorf("handled %s after the error", e.Kind)
			}
			return stop
		})
	if !errors.Is(err, stop) {
		t.Errorf("error %v, want the handler's", err)
	}
}

func TestWrittenEventsAreRead(t *testing.T) {
	want := protocol.Event{Kind: protocol.Handled, Jobs: 3}
	var out strings.Builder
	if err := want.Write(&out); err != nil {
		t.Fatal(err)
	}
	err := protocol.Read(strings.NewReader(out.String()), func(got protocol.Event) error {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBodyHasItsSizeAsJSON(t *testing.T) {
	for _, bytes := range []int{8, 30, 1000} {
		text, err := json.Marshal(protocol.NewBody(bytes))
		if err != nil || len(text) != bytes {
			t.Errorf("NewBody(%d) is %d bytes, %v", bytes, len(text), err)
		}
	}
	if body := protocol.NewBody(1); body.P != "" {
		t.Errorf("NewBody(1) = %+v, want the smallest", body)
	}
}
