package topics_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/txwork/txwork/workqueue/topics"
)

type handler func() string

func named(name string) handler { return func() string { return name } }

func newRegistry() *topics.Registry[handler] {
	return topics.New[handler]("mailbox", "postman", func(topic string) error {
		if topic == "" {
			return errors.New("topic is empty")
		}
		return nil
	})
}

func TestFind(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	r.Handle("a", named("A"))
	r.Handle("b", named("B"))
	r.HandleAll(named("the rest"))
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]string{"a": "A", "b": "B", "A": "the rest", "": "the rest"} {
		if h, err := r.Find(topic); err != nil || h() != want {
			t.Errorf("%q: not %q, %v", topic, want, err)
		}
	}
}

func TestATopicWithoutHandler(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	r.Handle("a", named("A"))
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	if h, err := r.Find("b"); h != nil || err == nil || err.Error() != `no handler is registered for topic "b"` {
		t.Errorf("got %v", err)
	}
}

func TestSealNeedsAHandler(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	if err := r.Seal(); err == nil || err.Error() != "txwork: the postman has no handler: call Handle or HandleAll before Run" {
		t.Errorf("got %v", err)
	}
	r.HandleAll(named("all")) // it was not sealed
	if err := r.Seal(); err != nil {
		t.Error(err)
	}
}

func TestRegisteringPanicsOnMistakes(t *testing.T) {
	t.Parallel()
	for want, register := range map[string]func(*topics.Registry[handler]){
		`mailbox: topic "a" has a handler already`:                  func(r *topics.Registry[handler]) { r.Handle("a", named("A")); r.Handle("a", named("A")) },
		"mailbox: there is a handler for every other topic already": func(r *topics.Registry[handler]) { r.HandleAll(named("A")); r.HandleAll(named("A")) },
		"topic is empty":                                                func(r *topics.Registry[handler]) { r.Handle("", named("A")) },
		`mailbox: the handler of "a" is nil`:                            func(r *topics.Registry[handler]) { r.Handle("a", nil) },
		`mailbox: the handler of "every other topic" is nil`:            func(r *topics.Registry[handler]) { r.HandleAll(nil) },
		"mailbox: the postman is running: register handlers before Run": func(r *topics.Registry[handler]) { r.HandleAll(named("A")); _ = r.Seal(); r.Handle("a", named("A")) },
	} {
		if got := panics(func() { register(newRegistry()) }); !strings.Contains(got, want) {
			t.Errorf("panics with %q, want %q", got, want)
		}
	}
}

func panics(f func()) (value string) {
	defer func() { value = fmt.Sprint(recover()) }()
	f()
	return ""
}
