package tracecontext

// A List has the context of each of several calls, nil for one without. It may be shorter
// than there are calls: the others have none.
type List []*Context

// Repeat returns the list of n calls of one request.
func Repeat(c *Context, n int) List {
	if c == nil {
		return nil
	}
	l := make(List, n)
	for i := range l {
		l[i] = c
	}
	return l
}

// At returns the context of a call, or nil.
func (l List) At(i int) *Context {
	if i < len(l) {
		return l[i]
	}
	return nil
}

// Between returns the list of the calls from one up to another.
func (l List) Between(from, to int) List {
	if from >= len(l) {
		return nil
	}
	return l[from:min(to, len(l))]
}

// With returns the list with the context of call i, which comes after those that it has.
func (l List) With(i int, c *Context) List {
	if c == nil {
		return l
	}
	for len(l) < i {
		l = append(l, nil)
	}
	return append(l, c)
}

// contextBytes is about what a context takes beside its texts.
const contextBytes = 32

// Size is about how many bytes of memory the list takes, where calls of one request come
// one after another.
func (l List) Size() (n int64) {
	var last *Context
	for _, c := range l {
		if c != nil && c != last {
			n += int64(len(c.Parent) + len(c.State) + contextBytes)
		}
		last = c
		n += 8
	}
	return n
}
