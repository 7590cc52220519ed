package jetstream

import (
	"context"
)

// A link stands for the connections as they are, until one is made again.
type link struct {
	lost context.Context
	end  context.CancelFunc // ends lost
}

func newLink() *link {
	l := &link{}
	l.lost, l.end = context.WithCancel(context.Background())
	return l
}
