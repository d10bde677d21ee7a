package webui

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Those who have the same page open read it once for each reading, and never for longer than its time.
func TestOpenPagesAreReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sharing{every: time.Minute}
		var reads atomic.Int32
		ask := func(of *reading, key string) {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					v, p := s.page(t.Context(), of, key, func() (view, *problem) {
						reads.Add(1)
						time.Sleep(time.Second)
						return view{title: key}, nil
					})
					if p != nil || v.title != key {
						t.Errorf("the page %s has the title %s, problem %v", key, v.title, p)
					}
				})
			}
			all.Wait()
		}
		first, second := &reading{}, &reading{}
		for i, of := range []struct {
			*reading
			key   string
			after time.Duration
		}{{first, "/", 0}, {first, "/keys", 0}, {second, "/", 0}, {second, "/", time.Minute}} {
			time.Sleep(of.after)
			ask(of.reading, of.key)
			ask(of.reading, of.key)
			if got := reads.Load(); got != int32(i+1) {
				t.Errorf("after page %d, pages were read %d times", i+1, got)
			}
		}
	})
}

// readSlowly begins to read the page / of some figures.
func readSlowly(t *testing.T, v view, p *problem) (s *sharing, of *reading) {
	s, of = &sharing{every: time.Minute}, &reading{}
	go s.page(t.Context(), of, "/", func() (view, *problem) {
		time.Sleep(time.Second)
		return v, p
	})
	synctest.Wait()
	return s, of
}

// A page that could not be read for one is read for the others.
func TestAProblemIsNotShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, of := readSlowly(t, view{}, &busy)
		v, p := s.page(t.Context(), of, "/", func() (view, *problem) { return view{title: "read"}, nil })
		if p != nil || v.title != "read" {
			t.Errorf("the page has the title %q, problem %v", v.title, p)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		s.find(of, "/slow") // nobody reads it
		s.page(gone, of, "/slow", func() (view, *problem) { return view{}, nil })
	})
}

// What is being read when an action changes something is not for those who ask after it, neither then nor later.
func TestAPageFromBeforeAnActionIsNotShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, of := readSlowly(t, view{title: "before"}, nil)
		s.forget()
		for range 2 {
			v, _ := s.page(t.Context(), of, "/", func() (view, *problem) { return view{title: "after"}, nil })
			if v.title != "after" {
				t.Errorf("the page has the title %q", v.title)
			}
			time.Sleep(2 * time.Second)
		}
	})
}

func TestFewPagesAreShared(t *testing.T) {
	t.Parallel()
	s := sharing{every: time.Minute}
	reads := 0
	for range 2 {
		for i := range maxShared + 5 {
			s.page(t.Context(), nil, time.Duration(i).String(), func() (view, *problem) {
				reads++
				return view{}, nil
			})
		}
	}
	if want := maxShared + 2*5; reads != want {
		t.Errorf("pages were read %d times, want %d", reads, want)
	}
}
