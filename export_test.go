package analytics

import "testing"

// SetMapping says whether the spools that are opened from now on may map files
// into memory, and returns what puts it back.
func SetMapping(on bool) (restore func()) {
	before := spoolNoMap
	spoolNoMap = !on
	return func() { spoolNoMap = before }
}

// HoldOpening has the client begin to open its spool, and go on when open is called.
func HoldOpening(t *testing.T, c *Client) (open func()) {
	set, err := c.settings()
	if err != nil {
		t.Fatal(err)
	}
	s := &starting{done: make(chan struct{})}
	c.starting = s
	return func() { c.open(s, set) }
}
