package topics

import (
	"fmt"
	"strings"
	"testing"
)

type handler func() string

func named(name string) handler { return func() string { return name } }

func mailbox() *registry[handler] { return newRegistry[handler]("mailbox", "postman") }

func TestFind(t *testing.T) {
	t.Parallel()
	r := mailbox()
	r.handle("a", named("A"))
	r.handle("b", named("B"))
	r.handleAll(named("the rest"))
	if err := r.seal(); err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]string{"a": "A", "b": "B", "A": "the rest", "": "the rest"} {
		if h, err := r.find(topic); err != nil || h() != want {
			t.Errorf("%q: not %q, %v", topic, want, err)
		}
	}
}

func TestATopicWithoutHandler(t *testing.T) {
	t.Parallel()
	r := mailbox()
	r.handle("a", named("A"))
	if err := r.seal(); err != nil {
		t.Fatal(err)
	}
	if h, err := r.find("b"); h != nil || err == nil || err.Error() != `no handler is registered for topic "b"` {
		t.Errorf("got %v", err)
	}
}

func TestSealNeedsAHandler(t *testing.T) {
	t.Parallel()
	r := mailbox()
	if err := r.seal(); err == nil || err.Error() != "txwork: the postman of mailbox has no handler: call Handle or "+
		"HandleAll before Run" {
		t.Errorf("got %v", err)
	}
	r.handleAll(named("all")) // the registry is not sealed
	if err := r.seal(); err != nil {
		t.Error(err)
	}
}

func TestRegisteringPanicsOnMistakes(t *testing.T) {
	t.Parallel()
	for want, register := range map[string]func(*registry[handler]){
		`mailbox: topic "a" has a handler already`: func(r *registry[handler]) {
			r.handle("a", named("A"))
			r.handle("a", named("A"))
		},
		"mailbox: there is a handler for every other topic already": func(r *registry[handler]) { r.handleAll(named("A")); r.handleAll(named("A")) },
		"topic is empty": func(r *registry[handler]) {
			r.handle("", named("A"))
		},
		`mailbox: the handler of "a" is nil`: func(r *registry[handler]) {
			r.handle("a", nil)
		},
		`mailbox: the handler of "every other topic" is nil`:            func(r *registry[handler]) { r.handleAll(nil) },
		"mailbox: the postman is running: register handlers before Run": func(r *registry[handler]) { r.handleAll(named("A")); _ = r.seal(); r.handle("a", named("A")) },
	} {
		if got := panics(func() { register(mailbox()) }); !strings.Contains(got, want) {
			t.Errorf("panics with %q, want %q", got, want)
		}
	}
}

func panics(f func()) (value string) {
	defer func() { value = fmt.Sprint(recover()) }()
	f()
	return ""
}
