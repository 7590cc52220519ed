package analytics

import "testing"

// HoldOpening starts to open the client's spool, and pauses until open is called.
func HoldOpening(t *testing.T, c *Client) (open func()) {
	set, err := c.settings()
	if err != nil {
		t.Fatal(err)
	}
	s := &starting{done: make(chan struct{})}
	c.starting = s
	return func() { c.open(s, set) }
}
