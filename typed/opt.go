package typed

// An Opt is a value that may be left out. Its zero value is left out. It is no pointer, so
// that it takes no allocation, can be compared, and is nobody else's.
type Opt[T any] struct {
	value T
	set   bool
}

// Some returns an Opt that has the value v, which may be the zero value of its type.
func Some[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Get returns the value, and whether there is one.
func (o Opt[T]) Get() (value T, ok bool) { return o.value, o.set }
