package shapes

import (
	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A look is one at a call.
type look struct {
	*sketch
	room room
	call *tracking.Call
	at   int64

	id     string // of the call, once it was copied
	values int    // that were looked at
	whole  bool
}

// look looks at a call of the sketch's event.
func (s *sketch) look(r room, c *tracking.Call, at int64) {
	s.looks++
	l := look{sketch: s, room: r, call: c, at: at, whole: true}
	wanted := fields.Describing(c.Type)
	scanner := jsonscan.New(c.Body)
	_ = scanner.Object(func(key []byte) error { // the body was checked when it came
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

func (l *look) object(s *jsonscan.Scanner, n *node, depth int) error {
	return s.Object(func(key []byte) error {
		m := n.member(l.sketch, l.room, jsonscan.Unquote(key))
		if m == nil {
			l.others++
			_, err := s.Value()
			return err
		}
		return l.value(s, m, depth)
	})
}

func (l *look) array(s *jsonscan.Scanner, n *node, depth int) error {
	elements := 0
	return s.Array(func() error {
		elements++
		if elements <= maxItems {
			if e := n.element(l.sketch, l.room); e != nil {
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

func (l *look) value(s *jsonscan.Scanner, n *node, depth int) error {
	l.values++
	if l.values > maxLooked {
		l.whole = false
		_, err := s.Value()
		return err
	}
	if n.lastLook != l.looks {
		n.lastLook = l.looks
		n.calls++
		if n.firstLook == 0 {
			n.firstLook = l.looks
		}
		seen(&n.firstAt, &n.lastAt, l.at)
	}
	switch s.Kind() {
	case '{':
		n.count(l.sketch, l.room, objectKind, l.at, l.messageID)
		if depth < maxDepth {
			return l.object(s, n, depth+1)
		}
	case '[':
		n.count(l.sketch, l.room, arrayKind, l.at, l.messageID)
		if depth < maxDepth {
			return l.array(s, n, depth+1)
		}
	default:
		raw, err := s.Value()
		if err != nil {
			return err
		}
		k := kindOf(raw)
		n.count(l.sketch, l.room, k, l.at, l.messageID)
		if k != nullKind {
			n.note(l.sketch, l.room, raw)
		}
		return nil
	}
	_, err := s.Value()
	return err
}

func (l *look) messageID() string {
	if l.id == "" {
		l.id = callID(l.call)
	}
	return l.id
}
