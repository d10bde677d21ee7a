package measure

import "testing"

func TestStatOfAProcessWithAStrangeName(t *testing.T) {
	t.Parallel()
	const line = "42 (a) b (c)) S 7 42 42 0 -1 4194560 1 2 3 4 11 22 33 44 20 0 1 0 99 100 5"
	got, ok := parseStat([]byte(line))
	if want := (processStat{parent: 7, self: 33, reaped: 77}); !ok || got != want {
		t.Errorf("got %+v, %v; want %+v", got, ok, want)
	}
	if _, ok := parseStat([]byte("42 (cut off) S 7")); ok {
		t.Error("a line that was cut off was read")
	}
}
