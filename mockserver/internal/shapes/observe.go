package shapes

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Observe implements event.Observer.
func (s *Shapes) Observe(e event.Event) {
	accepted, ok := e.(event.Accepted)
	if !ok {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens.refill(now)
	var last *sketch
	for i := range accepted.Calls {
		c := &accepted.Calls[i]
		k, ok := keyOf(c)
		if !ok {
			continue
		}
		if last == nil || last.key != k {
			if last = s.sketchOf(k, now); last == nil {
				s.others++
				continue
			}
		}
		s.add(last, c, now)
	}
}

// add counts a call. It also samples the call if enough tokens are left.
func (s *Shapes) add(e *sketch, c *tracking.Call, now time.Time) {
	at := c.ReceivedAt.UnixMilli()
	e.calls++
	e.changed = true
	seen(&e.firstAt, &e.lastAt, at)
	e.violate(c, at)
	if second := now.Unix(); e.second != second {
		e.second, e.samplesInSecond = second, 0
	}
	if s.tokens.take(1+float64(len(c.Body))/tokenBytes, e.samplesInSecond) {
		e.samplesInSecond++
		e.sample(c, at)
	}
}

// A sampler reads one call.
type sampler struct {
	*sketch
	call *tracking.Call
	at   int64

	id     string // copy of the messageId, or "" before it is needed
	values int    // number of sampled values
	whole  bool
}

// sample reads a call of the sketch's event.
func (s *sketch) sample(c *tracking.Call, at int64) {
	s.sampled++
	l := sampler{sketch: s, call: c, at: at, whole: true}
	wanted := fields.Describing(c.Type)
	scanner := jsonscan.New(c.Body)
	_ = scanner.Object(func(key []byte) error { // the body was validated on arrival
		if fields.Of(key) == wanted && scanner.Kind() == '{' {
			return l.object(scanner, &s.root, 1)
		}
		_, err := scanner.Value()
		return err
	})
	if !l.whole {
		s.cut++
	}
}

func (l *sampler) object(s *jsonscan.Scanner, n *node, depth int) error {
	return s.Object(func(key []byte) error {
		m := n.member(l.sketch, jsonscan.Unquote(key))
		if m == nil {
			l.others++
			_, err := s.Value()
			return err
		}
		return l.value(s, m, depth)
	})
}

func (l *sampler) array(s *jsonscan.Scanner, n *node, depth int) error {
	elements := 0
	return s.Array(func() error {
		elements++
		if elements <= maxItems {
			if e := n.element(l.sketch); e != nil {
				return l.value(s, e, depth)
			}
			l.others++
		} else {
			l.whole = false
		}
		_, err := s.Value()
		return err
	})
}

func (l *sampler) value(s *jsonscan.Scanner, n *node, depth int) error {
	l.values++
	if l.values > maxSampledValues {
		l.whole = false
		_, err := s.Value()
		return err
	}
	if n.lastSample != l.sampled {
		n.lastSample = l.sampled
		n.calls++
		if n.firstSample == 0 {
			n.firstSample = l.sampled
		}
		seen(&n.firstAt, &n.lastAt, l.at)
	}
	switch s.Kind() {
	case '{':
		n.count(l.sketch, objectKind, l.at, l.messageID)
		if depth < maxDepth {
			return l.object(s, n, depth+1)
		}
	case '[':
		n.count(l.sketch, arrayKind, l.at, l.messageID)
		if depth < maxDepth {
			return l.array(s, n, depth+1)
		}
	default:
		raw, err := s.Value()
		if err != nil {
			return err
		}
		k := kindOf(raw)
		n.count(l.sketch, k, l.at, l.messageID)
		if k != nullKind {
			n.addValue(l.sketch, raw)
		}
		return nil
	}
	_, err := s.Value()
	return err
}

func (l *sampler) messageID() string {
	if l.id == "" {
		l.id = callID(l.call)
	}
	return l.id
}

const (
	// tokensPerSecond is the rate at which tokens are added, up to maxTokens. A sample costs one
	// token, and another one for each tokenBytes bytes of the call.
	tokensPerSecond = 2000
	maxTokens       = 8000
	tokenBytes      = 2048
	// The third quarter of the tokens is reserved for events with fewer than fewSamples samples
	// in the current second. The last quarter is reserved for events without samples in it.
	fewSamples = 8
)

// tokens limits the rate of samples.
type tokens struct {
	spent float64
	at    time.Time
}

func (t *tokens) refill(now time.Time) {
	t.spent = max(0, t.spent-tokensPerSecond*now.Sub(t.at).Seconds())
	t.at = now
}

// take takes n tokens if enough are left. samples is the number of samples of the event in the
// current second.
func (t *tokens) take(n float64, samples int) bool {
	most := float64(maxTokens)
	switch {
	case samples >= fewSamples:
		most *= 0.5
	case samples > 0:
		most *= 0.75
	}
	if t.spent+n > most {
		return false
	}
	t.spent += n
	return true
}
