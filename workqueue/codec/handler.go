package codec

import "context"

// A Decoder is a delivery that decodes its payload with its domain's codec.
type Decoder interface {
	Decode(ctx context.Context, into any) error
}

// Handler returns a domain's handler that decodes the payload and calls handle with it. The types are inferred: D is
// the domain's delivery, and T the type of the payload. If the payload does not decode, the attempt fails with a
// [*DecodeError] and handle is not called.
func Handler[D Decoder, T any](handle func(ctx context.Context, d D, v T) error) func(context.Context, D) error {
	return func(ctx context.Context, d D) error {
		v, err := decoded[T](ctx, d)
		if err != nil {
			return err
		}
		return handle(ctx, d, v)
	}
}

// HandlerIn is [Handler] for domains whose handlers run in a transaction, such as the inbox.
func HandlerIn[Tx any, D Decoder, T any](handle func(ctx context.Context, tx Tx, d D, v T) error) func(context.Context,
	Tx, D) error {
	return func(ctx context.Context, tx Tx, d D) error {
		v, err := decoded[T](ctx, d)
		if err != nil {
			return err
		}
		return handle(ctx, tx, d, v)
	}
}

func decoded[T any](ctx context.Context, d Decoder) (v T, err error) {
	err = d.Decode(ctx, &v)
	return v, decodeError[T](err)
}
