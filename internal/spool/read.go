package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const (
	// maxReads is how often Read tries to read a segment before it gives up.
	maxReads = 10
	// shortPage is how many bytes are read at a time where that can be chosen.
	shortPage = 256 << 10
)

// Page is records that Read has read. It is overwritten when it is passed to Read
// again.
type Page struct {
	// Next is the position after the page. All records before it have been read,
	// acknowledged, or are missing.
	Next Position

	// Missing are records that are lost: they count as done.
	Missing []Range

	// Err says what is damaged, or why records are missing. It is nil if nothing
	// is.
	Err error

	// Recounted is how many records more than Open counted, or less than zero, a
	// segment of an earlier process turned out to have.
	Recounted int64

	base    Position
	records []record // parts of data
	data    []byte
}

// Range is N records with consecutive positions.
type Range struct {
	First Position
	N     int
}

// Len is the number of records in the page.
func (p *Page) Len() int { return len(p.records) }

// At returns a record of the page, and its body, which is valid until the page is
// overwritten.
func (p *Page) At(i int) (Position, []byte) {
	return p.base + Position(p.records[i].index), p.records[i].body
}

func (p *Page) reset() {
	p.Missing, p.Err, p.Recounted = p.Missing[:0], nil, 0
	p.records = p.records[:0]
}

// ReadFrom makes Read continue at a record, which has been passed to
// Options.Appended and is still valid. With nil, reading ends.
func (l *Log) ReadFrom(r *Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cursor = cursor{}
	if r != nil {
		l.cursor = cursor{l.active, r.offset, uint32(r.Position)}
	}
}

// Read reads records that are not done into a page. It does not read records that
// have not been passed to Options.Appended. When all have been read, the page is
// empty and its Next is after the last record. The error of Read means that a
// segment cannot be read at the moment; after several attempts, its records are
// missing.
func (l *Log) Read(p *Page) error {
	p.reset()
	// With writeMu, all records that are written have been passed on.
	l.writeMu.Lock()
	l.mu.Lock()
	l.writeMu.Unlock()
	from, next, ok := l.nextRange()
	if !ok {
		p.Next = l.last + 1
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	g := from.segment
	c, err := l.contents(p, from, &next)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if l.reads++; l.reads < maxReads {
			return err
		}
		g.unreadable = true
	}
	l.reads = 0
	p.base, p.Err = g.base, err
	missing := []span{{from.index, next.index}} // if the segment is lost
	if err == nil {
		missing = l.open(p, &c, from, &next)
	}
	l.take(p, next, missing)
	return nil
}

// open fills a page with the records between two cursors, and returns those that are
// missing.
func (l *Log) open(p *Page, c *contents, from cursor, next *cursor) (missing []span) {
	g := from.segment
	if g.old {
		next.index = max(next.index, c.upTo)
	}
	p.records, missing = c.left(span{from.index, next.index})
	if g.old {
		p.Recounted = l.recount(g, next.index, len(p.records), missing)
	}
	switch {
	case c.damaged > 0:
		p.Err = fmt.Errorf("%s: %d bytes from byte %d on are no whole record", l.path(g), c.damaged, from.offset+int64(c.damagedAt))
	case len(missing) > 0:
		p.Err = fmt.Errorf("%s: calls are missing", l.path(g))
	}
	return missing
}

// nextRange returns what Read is to read: the rest of the first segment that has
// one. The caller holds mu.
func (l *Log) nextRange() (from, next cursor, ok bool) {
	if l.cursor.segment == nil {
		return from, next, false
	}
	for {
		g := l.cursor.segment
		if l.cursor.index < g.records {
			return l.cursor, cursor{g, g.size, g.records}, true
		}
		i := l.afterCursor()
		if i < 0 {
			return from, next, false
		}
		l.cursor = cursor{segment: l.segments[i]}
	}
}

// take moves the cursor behind a page that was read.
func (l *Log) take(p *Page, next cursor, missing []span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := next.segment
	l.cursor = next
	p.Next = g.base + Position(next.index)
	for _, m := range missing {
		n := min(m.len(), g.records-g.ended) // an earlier process may have acknowledged some of an unreadable segment
		if n > 0 {
			first := m.end - n
			l.end(g, span{first, m.end})
			p.Missing = append(p.Missing, Range{g.base + Position(first), int(n)})
		}
	}
}

// recount corrects the counts of a segment of an earlier process: it has so many
// records, of which n and the missing ones are not done. It returns how many more
// that are than were counted.
func (l *Log) recount(g *segment, records uint32, n int, missing []span) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range missing {
		n += int(m.len())
	}
	more := int64(n) - int64(g.records-g.ended)
	g.records = records
	g.ended = records - uint32(n)
	g.saved = g.ended
	l.finish(g)
	return more
}

// contents reads what follows a cursor. An acknowledgement may be far after its
// record, so that is the rest of the segment; unless this process wrote it, since
// then no record after the cursor is acknowledged. In that case the page is
// shorter, and next is changed, as long as nothing is damaged.
func (l *Log) contents(p *Page, from cursor, next *cursor) (c contents, err error) {
	g, end := from.segment, next.offset
	if short := from.offset + shortPage; !g.old && short < end {
		data, err := l.read(p, g, from.offset, short)
		if err != nil {
			return c, err
		}
		c = readContents(data, g.generation, p.records)
		if c.damaged == 0 && c.end > 0 && c.upTo >= from.index {
			*next = cursor{g, from.offset + int64(c.end), c.upTo}
			return c, nil
		}
	}
	data, err := l.read(p, g, from.offset, end)
	if err != nil {
		return c, err
	}
	c = readContents(data, g.generation, p.records)
	c.checkEnd(data, g.generation)
	return c, nil
}

// read returns the bytes of a part of a segment, or as many as there are, in the
// memory of a page.
func (l *Log) read(p *Page, g *segment, from, to int64) ([]byte, error) {
	f, _, err := openRegular(l.path(g), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if n := int(to - from); cap(p.data) < n {
		p.data = make([]byte, n, max(n+n/8, shortPage))
	}
	data := p.data[:to-from]
	n, err := f.ReadAt(data, from)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}
