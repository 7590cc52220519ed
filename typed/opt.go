package typed

// An Opt is an optional value. The zero Opt is unset. Unlike a pointer, an Opt can be
// compared by value and does not allocate.
type Opt[T any] struct {
	value T
	set   bool
}

// Some returns an Opt with the value v.
func Some[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Get returns the value and whether it is set.
func (o Opt[T]) Get() (value T, ok bool) { return o.value, o.set }
