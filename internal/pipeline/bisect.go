package pipeline

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

const (
	// maxProbes is the number of single calls to try while the collector refuses all parts of
	// a batch. After that, the batch is dropped.
	maxProbes = 8
	// maxParts limits the number of requests for parts of one batch.
	maxParts = 256
)

// bisection finds the refused calls of a refused batch. It splits the batch into halves, and
// splits each refused half again. To find k of n calls, it needs about 2·k·log2(n) requests. It
// sends at most maxParts requests.
//
// A collector may refuse all batches, for example because of the write key. So at first, the
// bisection tries single calls from all parts of the batch. When one is accepted, it starts to
// split. If maxProbes single calls are refused, the batch is dropped.
type bisection struct {
	accepted bool     // the collector has accepted a part
	parts    int      // number of requests with parts, including scheduled ones
	probes   int      // number of single calls tried
	refused  []*batch // refused parts that must be split
	untried  []*batch // parts that were split from a probe and have not been sent

	why *Drop // the latest refusal
}

// refuse handles the refusal of a job's first batch. The collector may accept parts of the
// batch. The caller holds mu. Like nextPart, the function may unlock mu.
func (l *loop) refuse(j *job) {
	b := j.todo[0]
	if j.parts == nil {
		j.parts = &bisection{}
		if b.calls > 1 {
			l.results.note(refusal(b))
		}
	}
	j.parts.why = b.lost(Refused)
	if b.calls == 1 {
		l.end(b, j.parts.why)
	} else {
		j.parts.refused = append(j.parts.refused, b)
	}
	l.nextPart(j)
}

// nextPart removes the first batch of a job and selects the parts to send next. The caller
// holds mu. nextPart unlocks mu while it splits batches, because compressing a large batch
// takes milliseconds.
func (l *loop) nextPart(j *job) {
	j.todo = j.todo[1:]
	j.due = time.Time{}
	if j.parts == nil || len(j.todo) > 0 {
		return
	}
	switch s := j.parts; {
	case s.parts == 0 || s.accepted || slices.ContainsFunc(s.refused, (*batch).mayBeTooLarge):
		l.splitRefused(j)
	case s.probes < maxProbes:
		l.probe(j)
	default:
		l.dropParts(s)
	}
	if len(j.todo) == 0 {
		j.parts = nil
	}
}

// mayBeTooLarge reports whether splitting the batch may help, because the collector refused it
// for its size. The collector's size limit may be lower than the service's.
func (b *batch) mayBeTooLarge() bool {
	return b.status == http.StatusRequestEntityTooLarge && b.size() > MaxCallBytes
}

// splitRefused schedules the untried parts, and the halves of refused parts. It splits parts
// until maxParts is reached.
func (l *loop) splitRefused(j *job) {
	s := j.parts
	refused := s.refused
	j.todo, s.untried, s.refused = append(j.todo, s.untried...), nil, nil
	s.parts += len(j.todo)
	for _, b := range refused {
		if s.parts+2 > maxParts {
			l.end(b, b.lost(Refused))
			continue
		}
		s.parts += 2
		if first, second, ok := l.split(b); ok {
			j.todo = append(j.todo, first, second)
		} else {
			l.end(b, b.lost(Refused))
		}
	}
	slices.SortFunc(j.todo, func(a, b *batch) int { return cmp.Compare(a.seq, b.seq) })
}

// probe schedules a single call of the largest remaining part.
func (l *loop) probe(j *job) {
	s := j.parts
	from := &s.refused
	if len(*from) == 0 {
		from = &s.untried
	}
	if len(*from) == 0 {
		return
	}
	b := slices.MaxFunc(*from, func(a, b *batch) int { return cmp.Compare(a.calls, b.calls) })
	*from = slices.DeleteFunc(*from, func(other *batch) bool { return other == b })
	for b.calls > 1 {
		first, second, ok := l.split(b)
		if !ok {
			l.end(b, b.lost(Refused))
			l.probe(j)
			return
		}
		s.untried = append(s.untried, second)
		b = first
	}
	s.probes++
	s.parts++
	j.todo = append(j.todo, b)
}

// dropParts drops the remaining parts of a refused batch.
func (l *loop) dropParts(s *bisection) {
	for _, b := range append(s.refused, s.untried...) {
		l.end(b, s.why)
	}
}

// split splits a batch into two batches. If the batch is compressed, so are the results. It
// reports false if the calls cannot be separated. The caller holds mu. split unlocks mu during
// the work.
func (l *loop) split(b *batch) (first, second *batch, ok bool) {
	l.unlock()
	raw := b.buf
	if b.zip != nil {
		raw = b.zip.raw()
	}
	if first, second, ok = b.split(raw, l.settings); !ok {
		l.mu.Lock()
		return nil, nil, false
	}
	halves := [2]*batch{first, second}
	if b.zip != nil {
		for _, h := range halves {
			h.zip = l.zipper.compress(h.buf, tailLen)
		}
	}
	l.mu.Lock()
	for _, h := range halves {
		l.setCharge(h, int64(cap(h.buf))+batchOverhead+h.idBytes())
		if h.zip != nil {
			l.setZip(h, h.zip)
		}
		l.stats.Batches++
	}
	l.setCharge(b, 0)
	l.reclaim(b)
	return first, second, true
}
