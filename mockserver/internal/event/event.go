package event

// An Event is something that the collector did with calls: an [Accepted], [Repeated],
// [tracking.Rejection], [Refusal], [tracking.Attempt] or [tracking.Ended].
type Event any

// Accepted tells of calls that were stored.
type Accepted struct {
	Batch
	Keys []Key // of the calls, in their order; nil where they are not at hand
}

// Repeated tells of calls that were stored before. They are not stored again.
type Repeated struct{ Batch }

// An Observer is told what the collector does with calls. Observe is called from
// many goroutines at once, after the fact, and must not block.
type Observer interface{ Observe(Event) }

// Observers is an Observer that tells several.
type Observers []Observer

// Observe tells each of them.
func (os Observers) Observe(e Event) {
	for _, o := range os {
		o.Observe(e)
	}
}
