package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
)

// payloads returns the payloads in the outbox, in the order of writing.
func (c *cli) payloads() []string {
	c.t.Helper()
	return value[[]string](c, "SELECT coalesce(array_agg(convert_from(payload, 'UTF8') ORDER BY id), '{}') FROM "+
		"{schema}.outbox")
}

func (c *cli) send(input string, args ...string) result {
	c.t.Helper()
	return c.runWith(c.t.Context(), strings.NewReader(input), append([]string{"outbox", "send"}, args...)...)
}

func TestSendWritesLinesAsTheyAre(t *testing.T) {
	c := newMigratedCLI(t)
	lines := []string{`{"a": 1 }`, ` [1,2]`, `"text"`, `null`, `{"é":"\u0000"}`, `{"a": 1 }`, "{}\r"}
	input := strings.Join(lines[:3], "\n") + "\n\n  \n" + strings.Join(lines[3:], "\n") // no newline at the end
	c.send(input, "--topic", "t", "--batch", "3").ok().prints("sent 7 messages to topic t in 3 batches")
	if got := c.payloads(); strings.Join(got, "\n") != strings.Join(lines, "\n") {
		t.Errorf("payloads are %q, want %q", got, lines)
	}
}

func TestSendSummaryAsJSON(t *testing.T) {
	c := newMigratedCLI(t)
	sum := decode[map[string]any](c.send("1\n2\nx\n3\n", "--topic", "t", "--batch", "2", "--skip-bad", "--json").ok())
	for name, want := range map[string]float64{"sent": 3, "skipped": 1, "batches": 2, "duplicates": 0} {
		if sum[name] != want {
			t.Errorf("%s is %v, want %v", name, sum[name], want)
		}
	}
	if _, ok := sum["seconds"].(float64); !ok {
		t.Errorf("seconds is %v", sum["seconds"])
	}
	empty := decode[sendSummary](c.send("", "--topic", "t", "--json").ok())
	if empty.Sent != 0 || empty.Batches != 0 {
		t.Errorf("no input gave %+v", empty)
	}
}

func TestSendTakesKeysFromFields(t *testing.T) {
	c := newMigratedCLI(t)
	c.send(`{"k":"a\u00e9"}`+"\n"+`{"k": 12.50 }`+"\n"+`{"k":-1}`+"\n", "--topic", "t", "--key-field", "k").ok()
	keys := value[[]string](c, "SELECT array_agg(key ORDER BY id) FROM {schema}.outbox")
	if got := strings.Join(keys, " "); got != "aé 12.50 -1" {
		t.Errorf("keys are %s", got)
	}
}

func TestSendLeavesDuplicatesOut(t *testing.T) {
	c := newMigratedCLI(t)
	input := `{"id":1}` + "\n" + `{"id":2}` + "\n" + `{"id":1}` + "\n"
	c.send(input, "--topic", "t", "--dedup-field", "id").ok().prints("sent 2 messages", "left out 1 duplicate")
	sum := decode[sendSummary](c.send(input, "--topic", "t", "--dedup-field", "id", "--json").ok())
	if sum.Sent != 0 || sum.Duplicates != 3 {
		t.Errorf("sending again gave %+v", sum)
	}
	c.send(input, "--topic", "other", "--dedup-field", "id").ok().prints("sent 2 messages")
}

var badLines = []struct {
	name, line string
	args       []string
	want       string
}{
	{"no JSON", `{"a":`, nil, "is not valid JSON: unexpected end of JSON input"},
	{"two values", `{} {}`, nil, "is not valid JSON: invalid character '{' after top-level value at offset 4"},
	{"NUL", "{\"a\":\"\x00\"}", nil, "has a NUL byte at offset 6"},
	{"NUL in front", "\x00", nil, "has a NUL byte at offset 0"},
	{"UTF-8", "\"\xff\"", nil, "is not valid UTF-8"},
	{"byte order mark", "\ufeff{}", nil, "byte order mark"},
	{"too large", `"` + strings.Repeat("x", 200) + `"`, []string{"--max-payload", "100"},
		"has 202 bytes, the limit is 100"},
	{"no object", `[]`, []string{"--key-field", "k"}, "is not a JSON object"},
	{"null", `null`, []string{"--key-field", "k"}, "is not a JSON object"},
	{"no field", `{"K":1}`, []string{"--key-field", "k"}, `has no field "k"`},
	{"boolean key", `{"k":true}`, []string{"--key-field", "k"}, `neither text nor a number`},
	{"empty key", `{"k":""}`, []string{"--key-field", "k"}, `has an empty field "k"`},
	{"NUL in key", `{"k":"a\u0000"}`, []string{"--key-field", "k"}, `its key has a NUL byte`},
	{"long key", `{"k":"` + strings.Repeat("x", 256) + `"}`, []string{"--key-field", "k"},
		`its key has 256 bytes, it must have at most 255 bytes`},
	{"half a pair in key", `{"k":"a\ud800"}`, []string{"--key-field", "k"}, `has a field "k" with half of a surrogate pair`},
	{"half a pair in dedup key", `{"d":"\udc00b"}`, []string{"--dedup-field", "d"},
		`has a field "d" with half of a surrogate pair`},
	{"no dedup field", `{"k":1}`, []string{"--dedup-field", "d"}, `has no field "d"`},
}

func TestSendReportsABadLineAndNothingOfItsBatch(t *testing.T) {
	c := newMigratedCLI(t)
	for _, test := range badLines {
		t.Run(test.name, func(t *testing.T) {
			c := c.in(t)
			input := "\n" + goodLine(1) + goodLine(2) + goodLine(3) + test.line + "\n" + goodLine(4)
			args := append([]string{"--topic", test.name, "--batch", "2"}, test.args...)
			c.send(input, args...).exits(exitFailure).says("txwork: line 5 ", test.want,
				"nothing of its batch was written", "the lines up to 3 are committed (2 messages)",
				"resume from line 4 (tail -n +4)")
			if n := c.countTopic(test.name); n != 2 {
				t.Errorf("%d messages were written, want 2", n)
			}
		})
	}
}

func goodLine(n int) string { return fmt.Sprintf(`{"k":1,"d":%d}`+"\n", n) }

func (c *cli) countTopic(topic string) int {
	c.t.Helper()
	return value[int](c, "SELECT count(*) FROM {schema}.outbox WHERE topic = $1", topic)
}

func TestSendSkipsBadLines(t *testing.T) {
	c := newMigratedCLI(t)
	for _, test := range badLines {
		t.Run(test.name, func(t *testing.T) {
			c := c.in(t)
			input := goodLine(1) + test.line + "\n" + goodLine(2) + test.line // the last line too
			args := append([]string{"--topic", test.name, "--skip-bad"}, test.args...)
			c.send(input, args...).ok().prints("sent 2 messages", "skipped 2 bad lines").
				says("txwork: skipped: line 2 ", "txwork: skipped: line 4 ", test.want)
			if n := c.countTopic(test.name); n != 2 {
				t.Errorf("%d messages were written, want 2", n)
			}
		})
	}
}

func TestSendFailureAsJSONSaysWhereToResume(t *testing.T) {
	c := newMigratedCLI(t)
	sum := decode[sendSummary](c.send("1\n2\n3\nx\n", "--topic", "t", "--batch", "2", "--json").exits(exitFailure))
	if sum.Sent != 2 || sum.ResumeFrom != 3 || !strings.Contains(sum.Error, "line 4") {
		t.Errorf("summary is %+v", sum)
	}
	first := c.send("x\n", "--topic", "t").exits(exitFailure)
	first.says("nothing was written before", "resume from line 1")
}

func TestSendLargeLines(t *testing.T) {
	c := newMigratedCLI(t)
	const limit = 1 << 20
	longest := `"` + strings.Repeat("x", limit-2) + `"`
	huge := `"` + strings.Repeat("y", 5<<20) + `"`
	input := longest + "\n" + huge + "\n" + `"last"`
	c.send(input, "--topic", "t").exits(exitFailure).says("line 2 has 5242882 bytes, the limit is 1048576: " +
		"--max-payload raises it")
	c.send(input, "--topic", "t", "--skip-bad").ok().prints("sent 2 messages")
	if got := value[int](c, "SELECT max(octet_length(payload)) FROM {schema}.outbox"); got != limit {
		t.Errorf("the longest payload has %d bytes, want %d", got, limit)
	}
	c.send(huge, "--topic", "t", "--max-payload", "6000000").ok()
}

// A batch larger than the memory bound is sent in pieces, but in one transaction.
func TestSendLargeBatchIsOneTransaction(t *testing.T) {
	c := newMigratedCLI(t)
	megabyte := `"` + strings.Repeat("x", 1<<20-2) + `"` + "\n"
	bad := strings.Repeat(megabyte, 20) + "bad\n"
	c.send(bad, "--topic", "t").exits(exitFailure).says("line 21 ")
	if n := value[int](c, "SELECT count(*) FROM {schema}.outbox"); n != 0 {
		t.Fatalf("%d messages of a bad batch were written", n)
	}
	c.send(bad, "--topic", "t", "--skip-bad").ok().prints("sent 20 messages to topic t in 1 batch,")
	if n := value[int](c, "SELECT count(DISTINCT xmin::text) FROM {schema}.outbox"); n != 1 {
		t.Errorf("the batch took %d transactions", n)
	}
}

func TestSendFile(t *testing.T) {
	c := newMigratedCLI(t)
	file := filepath.Join(t.TempDir(), "in.ndjson")
	must(t, os.WriteFile(file, []byte("1\n2\n"), 0o600))
	c.run("outbox", "send", "--topic", "t", file).ok().prints("sent 2 messages")
	c.run("outbox", "send", "--topic", "t", file+".none").exits(exitFailure).says("no such file")
	c.send("3\n", "--topic", "t", "-").ok().prints("sent 1 message ")
}

func TestSendWithoutTables(t *testing.T) {
	c := newCLI(t)
	c.send("1\n", "--topic", "t").exits(exitFailure).says("does not exist: run `txwork migrate up --domain outbox --schema ")
}

func TestSendInterrupted(t *testing.T) {
	c := newMigratedCLI(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	r, w := io.Pipe()
	defer r.Close() // ends the reader in the background
	go func() {
		fmt.Fprint(w, "1\n2\n3\n")
		pgtest.Await(patience, func() bool { return len(c.payloads()) >= 2 || t.Context().Err() != nil })
		pgtest.Pass(200 * time.Millisecond) // the third line is read meanwhile
		cancel(errInterrupted)
	}()
	c.runWith(ctx, r, "outbox", "send", "--topic", "t", "--batch", "2").exits(exitInterrupted).
		says("txwork: interrupted", "nothing of lines 3 to 3 was written", "the lines up to 2 are committed",
			"resume from line 3")
	if n := len(c.payloads()); n != 2 {
		t.Errorf("%d messages were written, want 2", n)
	}
}

func TestSendInputThatBreaks(t *testing.T) {
	c := newMigratedCLI(t)
	broken := io.MultiReader(strings.NewReader("1\n2\n"), brokenReader{})
	c.runWith(t.Context(), broken, "outbox", "send", "--topic", "t", "--skip-bad").exits(exitFailure).
		says("reading line 3: disk on fire", "nothing of lines 1 to 2 was written", "resume from line 1")
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

func FuzzLineReader(f *testing.F) {
	f.Add([]byte("1\n\n22\r\n333"), 2)
	f.Add(bytes.Repeat([]byte("x"), 70_000), 65_536)
	f.Fuzz(func(t *testing.T, input []byte, limit int) {
		if limit < 1 || limit > 1<<20 {
			t.Skip()
		}
		want := bytes.Split(input, []byte("\n"))
		for l := range readLines(t.Context(), bytes.NewReader(input), limit) {
			if l.failure != nil {
				t.Fatal(l.failure)
			}
			text := want[l.number-1]
			if len(text) > limit {
				if l.bad == nil {
					t.Fatalf("line %d of %d bytes passed the limit of %d", l.number, len(text), limit)
				}
				continue
			}
			if !bytes.Equal(text, l.text) {
				t.Fatalf("line %d is %q, want %q", l.number, l.text, text)
			}
			want[l.number-1] = nil
		}
		for i, text := range want {
			if len(text) <= limit && len(bytes.Trim(text, " \t\r")) > 0 {
				t.Fatalf("line %d is missing: %q", i+1, text)
			}
		}
	})
}
