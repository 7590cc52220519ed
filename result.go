package analytics

import "fmt"

// notice is the end of a batch that is to be told: to the callback, and to the
// log if the batch was lost. Or it is a line for the log.
type notice struct {
	batch *batch     // without calls, for a line
	why   *DropError // nil if it was delivered
	line  string
}

// note queues a line for the log, whose writer is the caller's code as well. The
// caller of note holds mu.
func (p *pipeline) note(format string, args ...interface{}) {
	p.tell(notice{batch: &batch{}, line: fmt.Sprintf(format, args...)})
}

// report is note for those who do not hold mu.
func (p *pipeline) report(format string, args ...interface{}) {
	p.mu.Lock()
	defer p.unlock()
	p.note(format, args...)
}

// tell queues a notice. One goroutine tells them in order, and lives as long
// as there are any: the caller's code can neither delay the loop nor be held
// by it. The caller of tell holds mu.
func (p *pipeline) tell(n notice) {
	p.notices = append(p.notices, n)
	if !p.telling {
		p.telling = true
		p.tellers.Add(1)
		go p.tellAll()
	}
}

func (p *pipeline) tellAll() {
	defer p.tellers.Done()
	for {
		p.mu.Lock()
		notices := p.notices
		p.notices = nil
		if len(notices) == 0 {
			p.telling = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		for _, n := range notices {
			p.tellOne(n)
			p.mu.Lock()
			p.recharge(n.batch, 0)
			p.unlock()
		}
	}
}

func (p *pipeline) tellOne(n notice) {
	if n.line != "" {
		p.log.logf("%s", n.line)
	}
	if n.why != nil {
		p.log.logf("lost %s: %s", countCalls(int64(n.batch.calls)), n.why.text())
	}
	if p.callback == nil {
		return
	}
	r := Result{}
	if n.why != nil {
		r.Err = n.why
	}
	for _, id := range n.batch.ids {
		r.MessageId, r.Type = id.id, id.kind
		p.call(r)
	}
}

func (p *pipeline) call(r Result) {
	defer func() {
		if v := recover(); v != nil {
			p.log.logf("the callback panicked on %s %q: %v", r.Type, r.MessageId, v)
		}
	}()
	p.callback(r)
}
