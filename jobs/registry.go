package jobs

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/validate"
)

// A Registry holds the kinds of jobs: their settings, which a [Client] applies when it enqueues, and their handlers,
// which a [Worker] calls. A Client with a Registry refuses to enqueue other kinds, see [Options]. It is safe for
// concurrent use.
type Registry struct {
	mu    sync.RWMutex
	kinds map[string]*kind
}

// NewRegistry returns an empty Registry.
func NewRegistry() *Registry { return &Registry{kinds: map[string]*kind{}} }

// Quadratic is a ready-made backoff: the square of the attempt in seconds, 1 s, 4 s, 9 s and so on, up to an hour,
// without jitter. Small services often combine it with three attempts:
//
//	jobs.KindOptions[T]{Retry: jobs.Quadratic, MaxAttempts: jobs.QuadraticAttempts}
var Quadratic = workqueue.Retry{Growth: workqueue.Quadratic, Base: time.Second, Cap: time.Hour}

// QuadraticAttempts is the number of attempts to use with [Quadratic] for a short retry policy.
const QuadraticAttempts = 3

// KindOptions are the settings of a kind. The zero value of a field means the default. Those of an [Insert] override
// them.
type KindOptions[T Args] struct {
	// Queue is where jobs of the kind wait. Default: [DefaultQueue].
	Queue string

	// Priority within the queue. Default: [Normal].
	Priority Priority

	// Timeout is how long an attempt may take. After that the handler's context is cancelled. A negative value means no
	// timeout. Default: the worker's HandlerTimeout.
	Timeout time.Duration

	// RunsWithin is how long an attempt may take before its job is reported as one that does not return, see
	// [workqueue.WorkerOptions]. A negative value means never. Default: the worker's RunsWithin, or else that of
	// [workqueue.RunsWithin] for the Timeout.
	RunsWithin time.Duration

	// MaxAttempts is the maximum number of times that a job is started. Default: the client's.
	MaxAttempts int

	// Retry is the backoff. It is stored with the job, so it applies to reported failures and to crashes alike.
	// Default: the client's.
	Retry workqueue.Retry

	// Unique prevents jobs of the kind from being enqueued twice. Default: duplicates are allowed, unless there is a
	// UniqueKey.
	Unique *Unique

	// UniqueKey returns the unique key of a job with these args, such as the id of an order: 1 to [MaxKey] bytes. It
	// makes jobs of the kind unique also if Unique is nil. Unique.Key must be empty then. The Key or Fields of a job's
	// own Unique override UniqueKey. It is called concurrently. Default: the key is that of Unique.
	UniqueKey func(args T) string

	// UniqueFields is UniqueKey for [Unique].Fields, in place of it. Default: none.
	UniqueFields func(args T) map[string]any

	// ByKey returns the rule of a job with these args, [keyed.Ordered] or [keyed.Limited]; nil is none. Default: none.
	ByKey func(args T) keyed.Rule

	// Middleware wraps the kind's handler, inside the worker's middleware. The first is outermost.
	Middleware []Middleware
}

// kind is a kind without the type of its args.
type kind struct {
	name        string
	queue       string
	priority    Priority
	timeout     time.Duration
	runsWithin  time.Duration
	maxAttempts int
	retry       workqueue.Retry
	unique      *Unique
	uniqueKey   func(Args) (string, error)

	uniqueFields func(Args) (map[string]any, error)

	byKey  func(Args) (keyed.Rule, error)
	handle Handler // nil: the kind is only declared
}

// Register registers the handler of the kind of T. Like [net/http.ServeMux] it panics on mistakes of the program: an
// invalid kind, a nil handler, invalid settings, or a kind that is registered already.
//
// The handler's result settles the job. Nil means done. [workqueue.Permanent], [workqueue.Snooze],
// [workqueue.RetryAfter] and [workqueue.Cancelled] give other outcomes. Any other error, or a panic, is a failed
// attempt. Handlers run concurrently. A handler runs again for a job that it has done if its result was lost, see
// [Delivery.Tx] and [Step].
func Register[T Args](r *Registry, handler func(ctx context.Context, job *Job[T]) error, o KindOptions[T]) {
	if handler == nil {
		panic(fmt.Sprintf("txwork: the handler of %T is nil", *new(T)))
	}
	k := newKind(o)
	k.handle = typed(handler)
	for i := len(o.Middleware) - 1; i >= 0; i-- {
		k.handle = o.Middleware[i](k.handle)
	}
	r.add(k)
}

// Declare registers the settings of the kind of T without a handler, for programs that enqueue such jobs and leave them
// to other programs. It panics like [Register].
func Declare[T Args](r *Registry, o KindOptions[T]) { r.add(newKind(o)) }

func newKind[T Args](o KindOptions[T]) *kind {
	k := &kind{
		name: kindOf[T](), queue: o.Queue, priority: o.Priority, timeout: o.Timeout, runsWithin: o.RunsWithin,
		maxAttempts: o.MaxAttempts, retry: o.Retry, unique: o.Unique, uniqueKey: ofArgs("UniqueKey", o.UniqueKey),
		uniqueFields: ofArgs("UniqueFields", o.UniqueFields), byKey: ofArgs("ByKey", o.ByKey),
	}
	if k.uniqueKey != nil || k.uniqueFields != nil {
		k.unique = cmp.Or(k.unique, &Unique{})
	}
	if err := k.check(); err != nil {
		panic(err)
	}
	return k
}

// kindOf calls Kind on a zero value of T or, if T is a pointer, on a pointer to a zero value.
func kindOf[T Args]() string {
	zero := *new(T)
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		zero = reflect.New(t.Elem()).Interface().(T)
	} else if t.Kind() == reflect.Interface {
		panic(fmt.Sprintf("txwork: %v is an interface: a kind needs a type of its own", t))
	}
	return zero.Kind()
}

// ofArgs adapts an option of a kind, which is a function of its args, to the interface Args. Args of another type than
// T, such as *T, are encoded and decoded into a T first, which is how the handler will get them.
func ofArgs[T Args, R any](option string, of func(T) R) func(Args) (R, error) {
	if of == nil {
		return nil
	}
	return func(a Args) (none R, _ error) {
		args, ok := a.(T)
		if ok {
			return of(args), nil
		}
		ctx, plain := context.Background(), DefaultCodec{}
		encoded, err := plain.Encode(ctx, codec.Envelope{}, a)
		if err == nil {
			err = plain.Decode(ctx, codec.Envelope{}, encoded, &args)
		}
		if err != nil {
			return none, validate.Errorf("args", "are a %T and no %T, which the kind's %s takes: %v", a, args, option,
				err)
		}
		return of(args), nil
	}
}

func (k *kind) check() error {
	return cmp.Or(
		input.Name("kind", k.name, MaxKind),
		checkOptionalName("Queue", k.queue, MaxQueue),
		checkPriority(k.priority),
		k.unique.check(k.name, k.byKey != nil),
		k.checkUniqueKey(),
		workqueue.Spec{Table: tableName, MaxAttempts: k.maxAttempts, Retry: k.retry}.Validate(),
	)
}

func (k *kind) checkUniqueKey() error {
	derives := k.uniqueKey != nil || k.uniqueFields != nil
	switch {
	case k.uniqueKey != nil && k.uniqueFields != nil:
		return validate.Errorf("UniqueFields", "is set, and so is UniqueKey: set one of them")
	case derives && (k.unique.Key != "" || k.unique.Fields != nil):
		return validate.Errorf("Unique", "has a Key or Fields, and the kind has a UniqueKey or UniqueFields: set one "+
			"of them")
	}
	return nil
}

func (r *Registry) add(k *kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds[k.name] != nil {
		panic(fmt.Sprintf("txwork: kind %q is registered already", k.name))
	}
	r.kinds[k.name] = k
}

// unregistered stands for a kind that is not registered: all its settings are the defaults.
var unregistered = &kind{}

// find returns the kind's settings. It never returns nil.
func (r *Registry) find(name string) *kind {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if k := r.kinds[name]; k != nil {
		return k
	}
	return unregistered
}
