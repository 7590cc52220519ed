package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
)

// testCall contains the maps of a call and the JSON before and after them.
type testCall struct {
	Event        string                 `json:"event"`
	UserId       string                 `json:"userId"`
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Properties   map[string]interface{} `json:"properties,omitempty"`
}

// smallCall returns a call of about 210 bytes, including its ID and time.
func smallCall() testCall {
	return testCall{
		Event:      "Signed In",
		UserId:     "019mr8mf4r",
		Properties: map[string]interface{}{"plan": "Enterprise", "seats": 25, "trial": false},
	}
}

// largeCall returns a call of about 640 bytes.
func largeCall() testCall {
	return testCall{
		Event:  "Order Completed",
		UserId: "019mr8mf4r",
		Properties: map[string]interface{}{
			"order_id": "50314b8e9bcf000000000000", "affiliation": "Main Store", "revenue": 25.5, "tax": 2.25,
			"currency": "USD", "coupon": "hasbros", "quantity": 3, "first_order": true,
		},
		Context: map[string]interface{}{
			"ip":        "203.0.113.24",
			"locale":    "en-US",
			"userAgent": "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)",
			"app":       map[string]interface{}{"name": "Storefront", "version": "4.12.0"},
			"page":      map[string]interface{}{"path": "/checkout/thanks", "title": "Thank you"},
		},
		Integrations: map[string]interface{}{"All": true, "Mixpanel": false},
	}
}

func (c testCall) appendTo(dst []byte) ([]byte, error) {
	var err error
	for _, part := range []struct {
		lead, path string
		m          map[string]interface{}
	}{{`{"context":`, "context", c.Context}, {`,"integrations":`, "integrations", c.Integrations}, {`,"properties":`, "properties", c.Properties}} {
		if len(part.m) == 0 {
			continue
		}
		if dst, err = AppendMap(append(dst, part.lead...), part.m, part.path); err != nil {
			return dst, err
		}
	}
	dst = AppendString(append(dst, `,"event":`...), c.Event)
	dst = AppendString(append(dst, `,"userId":`...), c.UserId)
	return append(dst, '}'), nil
}

func BenchmarkEncode(b *testing.B) {
	for name, c := range map[string]testCall{"S": smallCall(), "L": largeCall()} {
		b.Run(name+"/ours", func(b *testing.B) {
			buffer := make([]byte, 0, 4<<10)
			b.ReportAllocs()
			for b.Loop() {
				out, err := c.appendTo(buffer[:0])
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(out)))
			}
		})
		b.Run(name+"/encoding-json", func(b *testing.B) {
			var buffer bytes.Buffer
			enc := json.NewEncoder(&buffer)
			enc.SetEscapeHTML(false)
			b.ReportAllocs()
			for b.Loop() {
				buffer.Reset()
				if err := enc.Encode(c); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(buffer.Len()))
			}
		})
	}
}

// BenchmarkKeySets compares cached keys, keys that change with every call, and maps that are too
// large for a key set.
func BenchmarkKeySets(b *testing.B) {
	defer func(odds uint32) { cacheOdds = odds }(cacheOdds)
	cacheOdds = 4
	maps := func(n, keys int) (list []map[string]interface{}) {
		for i := range n {
			m := map[string]interface{}{}
			for k := range keys {
				m[fmt.Sprintf("property_%d_%d", i, k)] = k
			}
			list = append(list, m)
		}
		return list
	}
	for _, c := range []struct {
		name string
		maps []map[string]interface{}
	}{
		{"8 keys, 1 key set", maps(1, 8)},
		{"8 keys, 4 key sets", maps(4, 8)},
		{"8 keys, 1000 key sets", maps(1000, 8)},
		{"8 keys, ever new", maps(50_000, 8)},
		{"20 keys, 1 key set", maps(1, 20)},
		{"100 keys, no key set", maps(1, 100)},
	} {
		b.Run(c.name, func(b *testing.B) {
			buffer := make([]byte, 0, 8<<10)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := AppendMap(buffer, c.maps[i%len(c.maps)], "properties"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
