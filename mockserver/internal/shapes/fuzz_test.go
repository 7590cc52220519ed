package shapes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// FuzzShapes uses arbitrary properties. It checks that counts are consistent, that exports are valid
// JSON, that values in a sketch occur in the calls, and that a restart changes nothing.
func FuzzShapes(f *testing.F) {
	f.Add(`{"a":1,"b":[{"c":"x"},null],"a":"2"}`, `{"a":"\ud800","":{"":[]}}`, "E")
	f.Add(`{"a.b":{"[]":1},"\u0000[]":[1]}`, `{"total":1e400,"t":"2026-11-23T12:00:00Z"}`, "order_completed")
	f.Add(strings.Repeat(`{"a":[`, 20)+strings.Repeat(`]}`, 20), `{"e":"a@b.c","u":"http://x"}`, "\x00`\n")
	f.Fuzz(func(t *testing.T, first, second, name string) {
		synctest.Test(t, func(t *testing.T) {
			store := state.NewMemory()
			s := start(store, quiet())
			var observed []string
			for i, properties := range []string{first, second, first} {
				if scan := jsonscan.New([]byte(properties)); scan.Object(nil) != nil || scan.End() != nil {
					continue
				}
				event := string(fields.AppendString(nil, strings.ToValidUTF8(name, "")))
				body := fmt.Sprintf(`{"type":"track","event":%s,"messageId":"m%d","properties":%s}`, event, i, properties)
				observe(s, call(t, "web", body))
				observed = append(observed, body)
			}
			check := func(e *shapes.Event, samples bool) {
				assert.LessOrEqual(t, e.Sampled, e.Calls)
				for i := range e.Properties {
					p := &e.Properties[i]
					values := uint64(0)
					for _, typ := range p.Types {
						values += typ.Count
					}
					assert.Equal(t, p.Values, values, p.Path)
					assert.LessOrEqual(t, p.Calls, e.Sampled, p.Path)
					assert.Positive(t, p.Calls)
					found := uint64(0)
					for _, body := range observed {
						if c := call(t, "web", body); len(e.Find(&c, p, "", "")) > 0 {
							found++
						}
					}
					assert.GreaterOrEqual(t, found, p.Calls, p.Path)
				}
				schema, err := json.Marshal(e.Schema())
				assert.NoError(t, err)
				assert.True(t, json.Valid(schema))
				if samples {
					assert.NotEmpty(t, e.Like())
				}
			}
			before := s.Events()
			for i := range before {
				check(&before[i], true)
			}
			s.Stop()
			s = start(store, quiet())
			defer s.Stop()
			after := s.Events()
			assert.Len(t, after, len(before))
			for i := range after {
				check(&after[i], false)
				assert.Len(t, after[i].Properties, len(before[i].Properties))
			}
		})
	})
}
