package analytics

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

const (
	// maxProbes is how many single calls of a batch are asked about, when
	// nothing of it has been taken, before the batch as a whole is what the
	// collector refuses.
	maxProbes = 8
	// maxParts is how many requests are made at most with parts of a batch.
	maxParts = 256
)

// bisection finds the calls of a refused batch that the collector refuses. The
// batch is halved, then each half that is refused, and so on. That takes about
// 2·k·log2(n) requests for k of n calls, and never more than maxParts.
//
// A collector may refuse any batch, for its write key, say. So as long as it has
// taken no part, single calls from all over the batch are asked about, until it
// takes one, or has refused maxProbes of them and with that the batch.
type bisection struct {
	taken   bool     // a part was taken
	parts   int      // requests made with parts, and to be made with those in the job's list
	probes  int      // single calls asked about
	refused []*batch // parts to be halved
	aside   []*batch // parts cut off from single calls, to be asked about or dropped

	why *DropError // what the part met that was refused last
}

// refuse takes the first batch off the job's list, which the collector refuses,
// though it may take a part of it. The caller holds mu, as for pass.
func (l *loop) refuse(j *job) {
	b := j.todo[0]
	if j.parts == nil {
		j.parts = &bisection{}
	}
	j.parts.why = b.lost(DropRefused)
	if b.calls == 1 {
		l.end(b, j.parts.why)
	} else {
		j.parts.refused = append(j.parts.refused, b)
	}
	l.pass(j)
}

// pass takes the first batch off the job's list. The caller holds mu, which is
// given up where batches are split: to compress the halves of a large one takes
// milliseconds.
func (l *loop) pass(j *job) {
	j.todo = j.todo[1:]
	j.due = time.Time{}
	if j.parts == nil || len(j.todo) > 0 {
		return
	}
	switch s := j.parts; {
	case s.parts == 0 || s.taken || slices.ContainsFunc(s.refused, (*batch).mayBeTooLarge):
		l.halveRefused(j)
	case s.probes < maxProbes:
		l.probe(j)
	default:
		l.dropParts(s)
	}
	if len(j.todo) == 0 {
		j.parts = nil
	}
}

// mayBeTooLarge reports whether a part of what was refused may be small enough
// for a collector that takes less in one request than the service does.
func (b *batch) mayBeTooLarge() bool {
	return b.status == http.StatusRequestEntityTooLarge && b.size() > MaxCallBytes
}

// halveRefused has the halves of the refused parts sent, as long as there are not
// too many, and those that nothing is known about.
func (l *loop) halveRefused(j *job) {
	s := j.parts
	refused := s.refused
	j.todo, s.aside, s.refused = append(j.todo, s.aside...), nil, nil
	s.parts += len(j.todo)
	for _, b := range refused {
		if s.parts+2 > maxParts {
			l.end(b, b.lost(DropRefused))
			continue
		}
		s.parts += 2
		first, second := l.split(b)
		j.todo = append(j.todo, first, second)
	}
	slices.SortFunc(j.todo, func(a, b *batch) int { return cmp.Compare(a.seq, b.seq) })
}

// probe has a single call sent of the largest part that is left.
func (l *loop) probe(j *job) {
	s := j.parts
	from := &s.refused
	if len(*from) == 0 {
		from = &s.aside
	}
	if len(*from) == 0 {
		return
	}
	b := slices.MaxFunc(*from, func(a, b *batch) int { return cmp.Compare(a.calls, b.calls) })
	*from = slices.DeleteFunc(*from, func(other *batch) bool { return other == b })
	for b.calls > 1 {
		first, second := l.split(b)
		s.aside = append(s.aside, second)
		b = first
	}
	s.probes++
	s.parts++
	j.todo = append(j.todo, b)
}

// dropParts drops all that is left of a batch which the collector refuses as a
// whole.
func (l *loop) dropParts(s *bisection) {
	for _, b := range append(s.refused, s.aside...) {
		l.end(b, s.why)
	}
}

// split makes two batches of one, compressed if it is. The caller holds mu, which
// is given up meanwhile.
func (l *loop) split(b *batch) (first, second *batch) {
	l.unlock()
	raw := b.buf
	if b.zip != nil {
		raw = b.zip.raw()
	}
	first, second = b.split(raw, l.settings)
	halves := [2]*batch{first, second}
	if b.zip != nil {
		for _, h := range halves {
			h.zip = l.zipper.compress(h.buf)
		}
	}
	l.mu.Lock()
	for _, h := range halves {
		l.recharge(h, int64(cap(h.buf))+batchOverhead+h.idBytes())
		if h.zip != nil {
			l.setZip(h, h.zip)
		}
		l.stats.Batches++
	}
	l.recharge(b, 0)
	l.reclaim(b)
	return first, second
}
