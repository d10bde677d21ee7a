package alarms_test

import (
	"context"
	"errors"
	"testing"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// hanging is a waker that reports each wake, and answers when the test says so.
type hanging struct {
	begun  chan alarms.Wake
	answer chan error
}

func newHanging() *hanging { return &hanging{make(chan alarms.Wake, 100), make(chan error)} }

func (h *hanging) Wake(ctx context.Context, w alarms.Wake) error {
	h.begun <- w
	return <-h.answer // even when ctx is cancelled
}

// The receiver may have got the wake, but the owner was told that the alarm is cancelled, so it must stay cancelled.
func TestACancelDuringADeliveryIsNotOverwritten(t *testing.T) {
	t.Parallel()
	for _, kind := range []alarms.New{once(), daily()} {
		for name, answer := range map[string]error{"delivered": nil, "refused": errRefused} {
			t.Run(kind.Kind+" "+name, func(t *testing.T) {
				t.Parallel()
				f := newAlarms(t)
				h := newHanging()
				f.dispatch(h)
				a := f.create(kind)
				f.due(a.ID)
				receive(t, h.begun)
				cancelled, err := f.store.CancelAlarm(t.Context(), a.ID, alice)
				if err != nil || cancelled.Status != alarms.StatusCancelled {
					t.Fatalf("error %v, got %+v", err, cancelled)
				}
				h.answer <- answer
				f.until("the timer has ended", func() bool { return f.timer(a.ID).Status == workqueue.Failed })
				if got := f.get(a.ID); got.Status != alarms.StatusCancelled || got.LastFiredAt != nil ||
					!got.UpdatedAt.Equal(cancelled.UpdatedAt) {
					t.Errorf("got %+v", got)
				}
			})
		}
	}
}

func TestACancelBreaksADeliveryOff(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	begun, broken := make(chan bool, 1), make(chan error, 1)
	f.dispatch(alarms.WakerFunc(func(ctx context.Context, _ alarms.Wake) error {
		begun <- true
		<-ctx.Done()
		broken <- context.Cause(ctx)
		return ctx.Err()
	}))
	a := f.create(once())
	f.due(a.ID)
	receive(t, begun)
	if _, err := f.store.CancelAlarm(t.Context(), a.ID, alice); err != nil {
		t.Fatal(err)
	}
	if cause := receive(t, broken); !errors.Is(cause, workqueue.ErrRowCancelled) {
		t.Errorf("cause %v", cause)
	}
}
