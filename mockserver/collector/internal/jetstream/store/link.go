package store

import (
	"context"
)

// A link stands for the connections as they are, until one is made again.
type link struct {
	Lost context.Context
	End  context.CancelFunc // ends Lost
}

// NewLink returns the link of connections that are there.
func NewLink() *link {
	l := &link{}
	l.Lost, l.End = context.WithCancel(context.Background())
	return l
}
