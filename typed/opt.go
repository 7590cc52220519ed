package typed

// An Opt is an optional value; the zero Opt has none. Unlike a pointer, an Opt is
// comparable and needs no allocation.
type Opt[T any] struct {
	value T
	set   bool
}

// Some returns an Opt with the value v.
func Some[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Get returns the value and whether it is set.
func (o Opt[T]) Get() (value T, ok bool) { return o.value, o.set }
