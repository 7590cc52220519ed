package analytics

import "testing"

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
