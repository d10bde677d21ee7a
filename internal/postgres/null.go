package postgres

// OrNull is the value to store: nil, which is NULL, for the zero value.
func OrNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}
