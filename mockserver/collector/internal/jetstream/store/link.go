package store

import (
	"context"
)

// A link stands for the connections as they are, until one is made again.
type link struct {
	Lost context.Context
	End  context.CancelFunc // ends lost
}

func NewLink() *link {
	l := &link{}
	l.Lost, l.End = context.WithCancel(context.Background())
	return l
}
