package bench

import "testing"

func TestWhatMakesAResultAFailure(t *testing.T) {
	t.Parallel()
	none, two := int64(0), int64(2)
	for name, test := range map[string]struct {
		result Result
		want   string
	}{
		"all done":      {Result{Jobs: 5}, ""},
		"none early":    {Result{Jobs: 5, Early: &none}, ""},
		"some lost":     {Result{Jobs: 5, Lost: 1}, "1 of 6 jobs were lost"},
		"some invented": {Result{Jobs: 5, Lost: -1}, "1 jobs were done that nobody asked for"},
		"some early":    {Result{Jobs: 5, Early: &two}, "2 timers fired early"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := test.result.Err(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
