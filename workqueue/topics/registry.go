package topics

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/txwork/txwork/internal/input"
)

// MaxLength is how many bytes a topic may have. Topics are indexed.
const MaxLength = 255

// Check reports why a row cannot have a topic: it must be 1 to [MaxLength] bytes of UTF-8 without NUL.
func Check(topic string) error { return input.Name("topic", topic, MaxLength) }

// A Registry maps topics to handlers of type H, a function type. A [Worker] has one; make your own for messages that
// reach their handlers without a worker. It is safe for concurrent use.
type Registry[H any] struct {
	domain string
	runner string
	serves string // what the runner claims from, for its messages

	mu       sync.RWMutex
	sealed   bool
	handlers map[string]H
	fallback *H
	wrappers []func(H) H // the outermost last

	batches    map[string]limited
	batchOfAll limited // nil: there is none
}

// NewRegistry makes an empty registry. Its panics begin with name.
func NewRegistry[H any](name string) *Registry[H] { return newRegistry[H](name, "") }

// newRegistry makes an empty registry. Domain and runner are words for its messages, such as outbox and relay.
func newRegistry[H any](domain, runner string) *Registry[H] {
	return &Registry[H]{domain: domain, runner: runner, serves: domain, handlers: map[string]H{},
		batches: map[string]limited{}}
}

// Handle registers the handler of a topic. Like [Worker.Handle] it panics on what cannot be meant: a topic that [Check]
// refuses, a nil handler, or a topic that has a handler already.
func (r *Registry[H]) Handle(topic string, h H) {
	r.checkHandler(topic, h)
	r.add(topic, func() { r.handlers[topic] = r.wrapped(h) })
}

// HandleAll registers the handler of every topic that has none of its own. It panics like [Registry.Handle].
func (r *Registry[H]) HandleAll(h H) {
	r.checkHandler("every other topic", h)
	r.addFallback(func() {
		h = r.wrapped(h)
		r.fallback = &h
	})
}

func (r *Registry[H]) checkHandler(what string, h H) {
	if isNil(h) {
		panic(fmt.Sprintf("%s: the handler of %q is nil", r.domain, what))
	}
}

// add adds the handler of a topic.
func (r *Registry[H]) add(topic string, add func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checkOpen()
	if err := Check(topic); err != nil {
		panic(err)
	}
	if _, taken := r.handlers[topic]; taken || r.batches[topic] != nil {
		panic(fmt.Sprintf("%s: topic %q has a handler already", r.domain, topic))
	}
	add()
}

// addFallback adds the handler of all other topics.
func (r *Registry[H]) addFallback(add func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checkOpen()
	if r.fallback != nil || r.batchOfAll != nil {
		panic(r.domain + ": there is a handler for every other topic already")
	}
	add()
}

func (r *Registry[H]) checkOpen() {
	if r.sealed {
		panic(fmt.Sprintf("%s: the %s is running: register handlers before Run", r.domain, r.runner))
	}
}

func isNil[H any](h H) bool {
	v := reflect.ValueOf(h)
	return !v.IsValid() || v.IsZero()
}

// wrap adds a wrapper to all handlers, also to those that are registered later.
func (r *Registry[H]) wrap(wrap func(H) H) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wrap == nil {
		panic(r.domain + ": the wrapper of the handlers is nil")
	}
	r.checkOpen()
	checked := func(h H) H {
		if h = wrap(h); isNil(h) {
			panic(r.domain + ": a wrapper returned a nil handler")
		}
		return h
	}
	for topic, h := range r.handlers {
		r.handlers[topic] = checked(h)
	}
	if r.fallback != nil {
		h := checked(*r.fallback)
		r.fallback = &h
	}
	r.wrappers = append(r.wrappers, checked)
}

func (r *Registry[H]) wrapped(h H) H {
	for _, wrap := range r.wrappers {
		h = wrap(h)
	}
	return h
}

// seal fixes the handlers. It is an error if there are none.
func (r *Registry[H]) seal() error {
	if err := r.check(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealed = true
	return nil
}

// check reports why the runner cannot run: there is no handler.
func (r *Registry[H]) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.handlers)+len(r.batches) == 0 && r.fallback == nil && r.batchOfAll == nil {
		return fmt.Errorf("txwork: the %s of %s has no handler: call Handle or HandleAll before Run", r.runner,
			r.serves)
	}
	return nil
}

// Find returns the handler of a topic, or that of all other topics. A topic without a handler is an error that a worker
// returns as a failed attempt and not as a permanent failure: another worker that knows the topic may be on its way, as
// in a rolling deploy.
func (r *Registry[H]) Find(topic string) (H, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if h, found := r.handlers[topic]; found {
		return h, nil
	}
	if r.fallback != nil {
		return *r.fallback, nil
	}
	var none H
	return none, fmt.Errorf("no handler is registered for topic %q", topic)
}
