package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// maxExpanded limits the number of LogValue calls and of groups without a key, for the attributes
// of one call. Without a limit, LogValue could return LogValuers forever.
const maxExpanded = 1000

var errExpanded = fmt.Errorf("more than %d calls of LogValue, perhaps an infinite chain", maxExpanded)

// AppendAttrs appends m, with sorted keys, and attrs as one JSON object. If several attributes
// have the same key, the last one is used. The rules of slog's handlers apply: LogValuers are
// resolved, groups are nested, a group without a key is merged into its parent, and groups
// without attributes are omitted. It returns the same errors as AppendMap.
func AppendAttrs(dst []byte, m map[string]interface{}, attrs []slog.Attr, path string, at PathHash) ([]byte, error) {
	w := attrWriter{}
	var out []byte
	var err error
	if len(m) == 0 {
		out, err = w.appendObject(dst, attrs, at, 1)
	} else {
		out, err = w.appendBoth(dst, m, attrs, at)
	}
	if err != nil {
		return dst, Below(path, err)
	}
	return out, nil
}

// attrWriter encodes the attributes of one call.
type attrWriter struct{ expanded int }

// expand counts a LogValue call or a group. It returns an error if there are more than maxExpanded.
func (w *attrWriter) expand() error {
	if w.expanded++; w.expanded > maxExpanded {
		return errExpanded
	}
	return nil
}

// appendBoth appends an object with the contents of a map and attributes. The map must not be empty.
func (w *attrWriter) appendBoth(dst []byte, m map[string]interface{}, attrs []slog.Attr, at PathHash) ([]byte, error) {
	attrs, err := w.simplify(attrs)
	if err != nil {
		return dst, err
	}
	for i := range attrs {
		if _, ok := m[attrs[i].Key]; ok {
			m = without(m, attrs)
			break
		}
	}
	if len(m) == 0 {
		return w.appendObject(dst, attrs, at, 1)
	}
	start := len(dst)
	if dst, err = appendObject(dst, m, at, 1); err != nil {
		return dst, err
	}
	if len(attrs) == 0 {
		return dst, nil
	}
	end := len(dst) - 1
	if dst, err = w.appendObject(dst[:end], attrs, at, 1); err != nil {
		return dst[:start], err
	}
	dst[end] = ','
	return dst, nil
}

// without returns a copy of m that does not contain the keys of attrs.
func without(m map[string]interface{}, attrs []slog.Attr) map[string]interface{} {
	rest := make(map[string]interface{}, len(m))
	maps.Copy(rest, m) // maps.Clone would move m to the heap
	for i := range attrs {
		delete(rest, attrs[i].Key)
	}
	return rest
}

// appendObject appends attrs as a JSON object.
func (w *attrWriter) appendObject(dst []byte, attrs []slog.Attr, at PathHash, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return dst, ErrTooDeep
	}
	var err error
	fields := cachedFields(attrs, at)
	if fields == nil {
		if simple(attrs) {
			cacheAttrs(attrs, at)
		} else if attrs, err = w.simplify(attrs); err != nil {
			return dst, err
		}
	}
	start := len(dst)
	if dst, err = w.appendMembers(dst, attrs, fields, at, depth); err != nil {
		return dst, err
	}
	if len(dst) == start {
		dst = append(dst, '{')
	}
	return append(dst, '}'), nil
}

// appendMembers appends an opening brace and the fields of an object. If there are no fields, it
// appends nothing. The attributes must be simple. If fields is not nil, it contains their cached
// keys.
func (w *attrWriter) appendMembers(dst []byte, attrs []slog.Attr, fields []field, at PathHash, depth int) (_ []byte, err error) {
	start := len(dst)
	for i := range attrs {
		v := attrs[i].Value
		kind := v.Kind()
		if kind == slog.KindLogValuer {
			if v, err = w.resolve(v); err != nil {
				return dst, Below(Segment(attrs[i].Key), err)
			}
			kind = v.Kind()
		}
		if kind == slog.KindGroup && len(v.Group()) == 0 {
			continue
		}
		n := len(dst)
		if fields != nil {
			dst = fields[i].append(dst)
		} else {
			dst = append(AppendString(append(dst, ','), attrs[i].Key), ':')
		}
		if n == start {
			dst[n] = '{'
		}
		switch kind {
		case slog.KindString:
			dst = AppendString(dst, v.String())
		case slog.KindInt64:
			dst = AppendInt(dst, v.Int64())
		case slog.KindFloat64:
			dst, err = appendFloat(dst, v.Float64(), 64)
		case slog.KindBool:
			dst = strconv.AppendBool(dst, v.Bool())
		default:
			dst, err = w.appendValue(dst, v, at.child(i), depth)
		}
		if err != nil {
			return dst, Below(Segment(attrs[i].Key), err)
		}
		if len(dst) > MaxText {
			return dst, ErrTooLarge
		}
	}
	return dst, nil
}

// cachedFields returns the cached keys of attrs, or nil. If the keys are cached, attrs are simple.
func cachedFields(attrs []slog.Attr, at PathHash) []field {
	bucket := keySets.ofAttrs.bucket(at, len(attrs))
	for i := range bucket {
		s := bucket[i].Load()
		if s == nil {
			break
		}
		if sameKeys(s.fields, attrs) {
			return s.fields
		}
	}
	return nil
}

func sameKeys(fields []field, attrs []slog.Attr) bool {
	if len(fields) != len(attrs) {
		return false
	}
	for i := range fields {
		if fields[i].key != attrs[i].Key {
			return false
		}
	}
	return true
}

// cacheAttrs adds the keys of attrs to the cache. Most calls do nothing, see cacheOdds.
func cacheAttrs(attrs []slog.Attr, at PathHash) {
	if len(attrs) == 0 || len(attrs) > maxKeys || rand.Uint32N(cacheOdds) != 0 {
		return
	}
	var keys [maxKeys]string
	for i := range attrs {
		keys[i] = attrs[i].Key
	}
	keySets.ofAttrs.add(keys[:len(attrs)], at)
}

// appendValue appends a value of a kind that appendMembers does not handle.
func (w *attrWriter) appendValue(dst []byte, v slog.Value, at PathHash, depth int) ([]byte, error) {
	switch v.Kind() {
	case slog.KindTime:
		return AppendTimeValue(dst, v.Time())
	case slog.KindUint64:
		return AppendUint(dst, v.Uint64()), nil
	case slog.KindDuration:
		return AppendInt(dst, int64(v.Duration())), nil
	case slog.KindGroup:
		return w.appendObject(dst, v.Group(), at, depth+1)
	}
	return AppendValue(dst, v.Any(), at, depth)
}

// AppendTimeValue appends t as a quoted string in the format of AppendTime.
func AppendTimeValue(dst []byte, t time.Time) ([]byte, error) {
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return dst, errors.New("the year of a time is not in the range 0 to 9999")
	}
	return append(AppendTime(append(dst, '"'), t), '"'), nil
}

// resolve calls LogValue until the result is not a LogValuer. It returns a panic as an error.
func (w *attrWriter) resolve(v slog.Value) (resolved slog.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("LogValue of a %s panicked: %s", Clip(fmt.Sprintf("%T", v.Any()), MaxRepeated/2), Clip(fmt.Sprint(p), MaxRepeated/2))
		}
	}()
	for v.Kind() == slog.KindLogValuer {
		if err := w.expand(); err != nil {
			return v, err
		}
		v = v.LogValuer().LogValue()
	}
	return v, nil
}

// simple reports whether the keys of attrs are unique and not empty. A group with an empty key
// is not simple, because its attributes must be merged into the object.
func simple(attrs []slog.Attr) bool {
	var seen [4]uint64 // a set of hashes of the previous keys
	for i := range attrs {
		key := attrs[i].Key
		n := len(key)
		if n == 0 {
			return false
		}
		bit := uint(key[0])*3 ^ uint(key[n-1])*29 ^ uint(key[n/2])*7 ^ uint(n)<<5
		word, mask := &seen[bit>>6&3], uint64(1)<<(bit&63)
		if *word&mask != 0 && slices.ContainsFunc(attrs[:i], func(a slog.Attr) bool { return a.Key == key }) {
			return false
		}
		*word |= mask
	}
	return true
}

// simplify returns attrs without duplicate keys, without groups that have an empty key, and
// without zero attributes.
func (w *attrWriter) simplify(attrs []slog.Attr) ([]slog.Attr, error) {
	simple, err := w.flatten(nil, attrs)
	if err != nil {
		return nil, err
	}
	last := make(map[string]int, len(simple))
	for i := range simple {
		last[simple[i].Key] = i
	}
	kept := simple[:0]
	for i := range simple {
		if last[simple[i].Key] == i {
			kept = append(kept, simple[i])
		}
	}
	return kept, nil
}

// flatten appends attrs to flat. It replaces each group without a key by the attributes of the
// group.
func (w *attrWriter) flatten(flat, attrs []slog.Attr) (_ []slog.Attr, err error) {
	if err := w.expand(); err != nil {
		return nil, err
	}
	flat = slices.Grow(flat, len(attrs))
	for _, a := range attrs {
		if a.Value.Kind() == slog.KindLogValuer {
			if a.Value, err = w.resolve(a.Value); err != nil {
				return nil, Below(Segment(a.Key), err)
			}
		}
		switch {
		case a.Value.Kind() == slog.KindGroup && len(a.Value.Group()) == 0:
		case a.Key != "":
			flat = append(flat, a)
		case a.Value.Kind() == slog.KindGroup:
			if flat, err = w.flatten(flat, a.Value.Group()); err != nil {
				return nil, err
			}
		case !a.Equal(slog.Attr{}):
			flat = append(flat, a)
		}
	}
	return flat, nil
}
