package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const (
	// maxReads is the maximum number of attempts to read a segment.
	maxReads = 10
	// shortPage is the preferred size of a page in bytes.
	shortPage = 256 << 10
)

// Page contains records. A Page can be passed to Read again, which overwrites it.
type Page struct {
	// Next is the position after the page. Each record before it has been read, is
	// acknowledged, or is missing.
	Next Position

	// Missing contains lost records. The log treats them as acknowledged.
	Missing []Range

	// Err describes corruption, or the reason for missing records. It is nil if there is
	// neither.
	Err error

	// Recounted is the number of records in a segment of a previous process that Open did
	// not count. It is negative if Open counted too many.
	Recounted int64

	base    Position
	records []record // each record is a part of data
	data    []byte
}

// Range is a range of N records with consecutive positions.
type Range struct {
	First Position
	N     int
}

// Len returns the number of records in the page.
func (p *Page) Len() int { return len(p.records) }

// At returns the position and the body of a record. The body is valid until the page is
// overwritten.
func (p *Page) At(i int) (Position, []byte) {
	return p.base + Position(p.records[i].index), p.records[i].body
}

func (p *Page) reset() {
	p.Missing, p.Err, p.Recounted = p.Missing[:0], nil, 0
	p.records = p.records[:0]
}

// ReadFrom sets the record that Read returns next. r must be valid: it is an argument of
// Options.Appended that has not returned. If r is nil, Read returns no more records.
func (l *Log) ReadFrom(r *Record) {
	l.cursor = cursor{}
	if r != nil {
		l.cursor = cursor{l.active, r.offset, uint32(r.Position)}
	}
}

// Read reads unacknowledged records into a page. When there are no more records, the page is empty
// and its Next is the position after the last record. Read returns an error if a segment cannot be
// read at the moment. After several attempts, it reports the records of that segment as missing.
func (l *Log) Read(p *Page) error {
	p.reset()
	l.mu.Lock()
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
	missing := []span{{from.index, next.index}} // used if the segment cannot be read
	if err == nil {
		missing = l.open(p, &c, from, &next)
	}
	l.take(p, next, missing)
	return nil
}

// open fills a page with the records between two cursors. It returns the missing records.
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
	case c.corrupted > 0:
		p.Err = fmt.Errorf("%s: %d corrupted bytes at offset %d", l.path(g), c.corrupted, from.offset+int64(c.corruptedAt))
	case len(missing) > 0:
		p.Err = fmt.Errorf("%s: calls are missing", l.path(g))
	}
	return missing
}

// nextRange returns the range to read next: the rest of the first segment with unread records.
// It reports false if there is none. The caller holds mu.
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

// take moves the cursor to the end of a page.
func (l *Log) take(p *Page, next cursor, missing []span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := next.segment
	l.cursor = next
	p.Next = g.base + Position(next.index)
	for _, m := range missing {
		n := min(m.len(), g.records-g.ended) // a previous process may have acknowledged some of the missing records
		if n > 0 {
			first := m.end - n
			l.end(g, span{first, m.end})
			p.Missing = append(p.Missing, Range{g.base + Position(first), int(n)})
		}
	}
}

// recount corrects the counts of a segment of a previous process. records is the number of
// records in the segment. Its unacknowledged records are n readable ones and the missing ones.
// recount returns the change of the number of unacknowledged records.
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

// contents reads a segment from a cursor to its end, because acknowledgements may be stored long
// after their records. In a segment of this process, no record after the cursor is acknowledged.
// So if it finds no corruption, contents reads only a part and changes next.
func (l *Log) contents(p *Page, from cursor, next *cursor) (c contents, err error) {
	g, end := from.segment, next.offset
	if short := from.offset + shortPage; !g.old && short < end {
		data, err := l.read(p, g, from.offset, short)
		if err != nil {
			return c, err
		}
		c = readContents(data, g.generation, p.records)
		if c.corrupted == 0 && c.end > 0 && c.upTo >= from.index {
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

// read reads a part of a segment into the memory of a page. At the end of the file, it returns
// fewer bytes.
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
