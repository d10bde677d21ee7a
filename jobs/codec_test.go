package jobs_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// sealer encrypts with AES-GCM. What it seals opens only where it belongs.
type sealer struct {
	current byte // the key that seals; others only open
	keys    map[byte]cipher.AEAD
}

func newSealer(ids ...byte) *sealer {
	s := &sealer{current: ids[len(ids)-1], keys: map[byte]cipher.AEAD{}}
	for _, id := range ids {
		block, _ := aes.NewCipher(bytes.Repeat([]byte{id}, 32))
		s.keys[id], _ = cipher.NewGCM(block)
	}
	return s
}

func context256(b jobs.Binding) []byte {
	return fmt.Appendf(nil, "%q %s %q %q", b.Table, b.ID, b.Kind, b.Field)
}

func (s *sealer) Seal(b jobs.Binding, plain []byte) ([]byte, error) {
	nonce := make([]byte, 12)
	rand.Read(nonce)
	return s.keys[s.current].Seal(append([]byte{s.current}, nonce...), nonce, plain, context256(b)), nil
}

func (s *sealer) Open(b jobs.Binding, sealed []byte) ([]byte, error) {
	if len(sealed) < 13 || s.keys[sealed[0]] == nil {
		return nil, errors.New("no such key")
	}
	return s.keys[sealed[0]].Open(nil, sealed[1:13], sealed[13:], context256(b))
}

func TestACodecSealsWhatIsStored(t *testing.T) {
	t.Parallel()
	f := newJobs(t, func(o *jobs.Options) { o.Codec = newSealer(1) })
	got := make(chan string, 10)
	jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error {
		got <- job.Args.To
		if _, err := jobs.Step(ctx, job, "greet", func(context.Context) (string, error) { return "secret", nil }); err != nil {
			return err
		}
		return job.Output(ctx, "secret")
	})
	o := jobs.InsertOptions{Unique: &jobs.Unique{OnConflict: jobs.Replace}}
	id := f.enqueue(mail{To: "secret"}, o).ID
	equal(t, "unique by what is inside", f.enqueue(mail{To: "secret"}, o), jobs.Enqueued{ID: id, Duplicate: true, Replaced: true})
	other := f.enqueue(mail{To: "other"}).ID
	f.exec("UPDATE "+f.table+" SET args = (SELECT args FROM "+f.table+" WHERE id = $1) WHERE id = $2", id, other)
	s := f.schedules()
	f.put(s, jobs.Schedule{Name: "digest", Expr: "@yearly", Args: mail{To: "secret"}})
	f.inTx(func(tx workqueue.Tx) error { _, err := s.Trigger(f.Context(), tx, "digest"); return err })
	f.work(jobs.WorkerOptions{})

	info := f.await(id, workqueue.Done)
	equal(t, "args", receive(t, got), "secret")
	equal(t, "args of the schedule's job", receive(t, got), "secret")
	var output string
	f.ok(f.client.DecodeOutput(info, &output))
	equal(t, "output", output, "secret")
	equal(t, "in the clear", ask[int](f, fmt.Sprintf(`SELECT (SELECT count(*) FROM %[1]s AS t WHERE position('secret' IN encode(t.args, 'escape') || coalesce(encode(t.output, 'escape'), '')) > 0)
		+ (SELECT count(*) FROM %[1]s_step AS s WHERE position('secret' IN encode(s.result, 'escape')) > 0)
		+ (SELECT count(*) FROM %[1]s_schedule AS s WHERE position('secret' IN encode(s.template, 'escape')) > 0)`, f.table)), 0)
	if info := f.attempted(other); !strings.Contains(info.LastError, "args cannot be opened") {
		t.Errorf("args that were copied from another job: error %q", info.LastError)
	}
}

// pixels are args that are bytes and no JSON.
type pixels struct{ data []byte }

func (*pixels) Kind() string                        { return "pixels" }
func (p *pixels) MarshalBinary() ([]byte, error)    { return p.data, nil }
func (p *pixels) UnmarshalBinary(data []byte) error { p.data = bytes.Clone(data); return nil }

func TestArgsMayBeBytes(t *testing.T) {
	t.Parallel()
	f := newJobs(t)
	got := make(chan []byte, 1)
	jobs.Register(f.kinds, func(_ context.Context, job *jobs.Job[*pixels]) error { got <- job.Args.data; return nil })
	f.work(jobs.WorkerOptions{})
	raw := []byte{0, 255, '"', 7}
	f.enqueue(&pixels{raw})
	if data := receive(t, got); !bytes.Equal(data, raw) {
		t.Errorf("args %v, want %v", data, raw)
	}
}
