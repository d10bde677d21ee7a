package aesgcm

import (
	"context"
	"crypto/cipher"

	"github.com/txwork/txwork/workqueue/codec"
)

// Options configure a [Codec]. Current is required.
type Options struct {
	// Current encrypts and decrypts.
	Current Key
	// Older only decrypt: the keys before Current, and the next key while it is being deployed.
	Older []Key
	// Inner encodes the values before they are encrypted. Default: [codec.JSON].
	Inner codec.Codec
}

// A Codec encrypts what its inner codec encodes. It is safe for concurrent use.
type Codec struct {
	inner   codec.Codec
	current string
	keys    ring
}

var _ codec.Codec = (*Codec)(nil)

// New makes a Codec. It returns an error for an invalid id or secret, and for two keys with the same id.
func New(o Options) (*Codec, error) {
	keys, err := newRing(append([]Key{o.Current}, o.Older...))
	if err != nil {
		return nil, err
	}
	if o.Inner == nil {
		o.Inner = codec.JSON{}
	}
	return &Codec{inner: o.Inner, current: o.Current.ID, keys: keys}, nil
}

// Encode implements [codec.Codec].
func (c *Codec) Encode(ctx context.Context, e codec.Envelope, v any) ([]byte, error) {
	plain, err := c.inner.Encode(ctx, e, v)
	if err != nil {
		return nil, err
	}
	return c.Seal(e, plain), nil
}

// Decode implements [codec.Codec]. Every error is an [*OpenError].
func (c *Codec) Decode(ctx context.Context, e codec.Envelope, data []byte, into any) error {
	id, plain, err := c.open(e, data)
	if err != nil {
		return err
	}
	if err := c.inner.Decode(ctx, e, plain, into); err != nil {
		return &OpenError{KeyID: id, reason: innerError{err}}
	}
	return nil
}

// Seal encrypts bytes with the current key, without the inner codec.
func (c *Codec) Seal(e codec.Envelope, plain []byte) []byte {
	sealed := header(c.current)
	return c.keys[c.current].Seal(sealed, nil, plain, additional(sealed, e))
}

// Open decrypts the result of [Codec.Seal] with any known key. Every error is an [*OpenError].
func (c *Codec) Open(e codec.Envelope, sealed []byte) ([]byte, error) {
	_, plain, err := c.open(e, sealed)
	return plain, err
}

func (c *Codec) open(e codec.Envelope, sealed []byte) (id string, plain []byte, err error) {
	id, body, err := split(sealed)
	if err != nil {
		return "", nil, &OpenError{reason: err}
	}
	aead, err := c.key(id, body)
	if err != nil {
		return id, nil, &OpenError{KeyID: id, reason: err}
	}
	plain, err = aead.Open([]byte{}, nil, body, additional(sealed[:len(sealed)-len(body)], e))
	if err != nil {
		return id, nil, &OpenError{KeyID: id, reason: ErrAuthentication}
	}
	return id, plain, nil
}

func (c *Codec) key(id string, body []byte) (cipher.AEAD, error) {
	aead := c.keys[id]
	switch {
	case aead == nil:
		return nil, ErrUnknownKey
	case len(body) < aead.Overhead():
		return nil, ErrFormat
	}
	return aead, nil
}
