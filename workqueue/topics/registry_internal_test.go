package topics

import (
	"fmt"
	"strings"
	"testing"
)

type handler func() string

func named(name string) handler { return func() string { return name } }

func mailbox() *Registry[handler] { return newRegistry[handler]("mailbox", "postman") }

func TestFind(t *testing.T) {
	t.Parallel()
	r := mailbox()
	r.Handle("a", named("A"))
	r.Handle("b", named("B"))
	r.HandleAll(named("the rest"))
	if err := r.seal(); err != nil {
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
	r := mailbox()
	r.Handle("a", named("A"))
	if err := r.seal(); err != nil {
		t.Fatal(err)
	}
	if h, err := r.Find("b"); h != nil || err == nil || err.Error() != `no handler is registered for topic "b"` {
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
	r.HandleAll(named("all")) // the registry is not sealed
	if err := r.seal(); err != nil {
		t.Error(err)
	}
}

func TestRegisteringPanicsOnMistakes(t *testing.T) {
	t.Parallel()
	for want, register := range map[string]func(*Registry[handler]){
		`mailbox: topic "a" has a handler already`: func(r *Registry[handler]) {
			r.Handle("a", named("A"))
			r.Handle("a", named("A"))
		},
		"mailbox: there is a handler for every other topic already": func(r *Registry[handler]) { r.HandleAll(named("A")); r.HandleAll(named("A")) },
		"topic is empty": func(r *Registry[handler]) {
			r.Handle("", named("A"))
		},
		`mailbox: the handler of "a" is nil`: func(r *Registry[handler]) {
			r.Handle("a", nil)
		},
		`mailbox: the handler of "every other topic" is nil`:            func(r *Registry[handler]) { r.HandleAll(nil) },
		"mailbox: the postman is running: register handlers before Run": func(r *Registry[handler]) { r.HandleAll(named("A")); _ = r.seal(); r.Handle("a", named("A")) },
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

func TestWrap(t *testing.T) {
	t.Parallel()
	r := mailbox()
	wrapper := func(name string) func(handler) handler {
		return func(h handler) handler { return func() string { return name + "(" + h() + ")" } }
	}
	r.Handle("a", named("A"))
	r.wrap(wrapper("inner"))
	r.HandleAll(named("the rest"))
	r.wrap(wrapper("outer"))
	r.Handle("b", named("B"))
	for topic, want := range map[string]string{"a": "outer(inner(A))", "b": "outer(inner(B))",
		"c": "outer(inner(the rest))"} {
		if h, err := r.Find(topic); err != nil || h() != want {
			t.Errorf("%q: not %q, %v", topic, want, err)
		}
	}
	if got := panics(func() { r.wrap(nil) }); !strings.Contains(got, "the wrapper of the handlers is nil") {
		t.Error(got)
	}
	if got := panics(func() { r.wrap(func(handler) handler { return nil }) }); !strings.Contains(got, "nil handler") {
		t.Error(got)
	}
	if err := r.seal(); err != nil {
		t.Fatal(err)
	}
	if got := panics(func() { r.wrap(wrapper("late")) }); !strings.Contains(got, "is running") {
		t.Error(got)
	}
}
