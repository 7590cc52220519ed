package jq

import (
	"bytes"
	"encoding/json"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
)

// decode returns the value of a JSON document. Numbers keep their digits. It is twice as fast as
// encoding/json, which matters because decoding takes longer than a short program.
func decode(body []byte) (v any, err error) {
	d := decoder{jsonscan.New(body), string(body)}
	if v, err = d.value(); err == nil {
		err = d.End()
	}
	return v, err
}

// A decoder decodes a document. Strings share the memory of text.
type decoder struct {
	*jsonscan.Scanner
	text string
}

func (d *decoder) value() (any, error) {
	switch kind := d.Kind(); kind {
	case '{':
		fields := map[string]any{}
		err := d.Object(func(key []byte) (err error) {
			name := d.unquote(key, d.KeyOffset())
			fields[name], err = d.value()
			return err
		})
		return fields, err
	case '[':
		elements := []any{}
		err := d.Array(func() error {
			e, err := d.value()
			elements = append(elements, e)
			return err
		})
		return elements, err
	default:
		raw, err := d.Value()
		if err != nil {
			return nil, err
		}
		start := d.Offset() - len(raw)
		switch kind {
		case '"':
			return d.unquote(raw, start), nil
		case '0':
			return json.Number(d.text[start:d.Offset()]), nil
		case 'n':
			return nil, nil
		}
		return kind == 't', nil
	}
}

// unquote returns the content of a quoted string.
func (d *decoder) unquote(raw []byte, start int) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return d.text[start+1 : start+len(raw)-1]
	}
	return string(jsonscan.Unquote(raw))
}
