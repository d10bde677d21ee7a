package codec

import "context"

// A Decoder is a delivery that can decode its payload with the codec of its domain.
type Decoder interface {
	Decode(ctx context.Context, into any) error
}

// Handler makes a domain's handler of one that takes the decoded payload. The types follow from the function:
// D is the domain's delivery, T the payload's type. A payload that does not decode is a failed attempt with a
// [*DecodeError], and the function is not called.
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
func HandlerIn[Tx any, D Decoder, T any](handle func(ctx context.Context, tx Tx, d D, v T) error) func(context.Context, Tx, D) error {
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
