package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/plan"
)

// BenchmarkJudge checks a call with 8 properties against a plan of 50 events.
func BenchmarkJudge(b *testing.B) {
	var text strings.Builder
	text.WriteString("plan: bench\ntrack:\n")
	for i := range 50 {
		fmt.Fprintf(&text, `  Event %d:
    properties:
      orderId:  {type: string, required: true}
      total:    {type: number, minimum: 0, required: true}
      currency: {type: string, enum: [EUR, USD], required: true}
      coupon:   {type: string}
      gift:     {type: boolean}
      quantity: {type: integer, minimum: 1}
      email:    {type: string}
      items:    {type: array, items: {type: object, properties: {sku: {type: string}, quantity: {type: integer}}}}
    additionalProperties: false
`, i)
	}
	p, err := plan.Parse("bench.yaml", []byte(text.String()))
	if err != nil {
		b.Fatal(err)
	}
	properties := `"orderId":"o-1","total":%s,"currency":"EUR","coupon":"WELCOME","gift":true,"quantity":2,"email":"a@b.example","items":[{"sku":"TEA-7","quantity":2}]`
	call := func(total string) []byte {
		return fmt.Appendf(nil, `{"type":"track","event":"Event 49","userId":"u","messageId":"0190b6c3-6c6e-7d2a-8a5b-0123456789ab","context":{"library":{"name":"analytics-go"}},"properties":{`+properties+`}}`, total)
	}
	b.Run("accepted", func(b *testing.B) {
		planned, member := call("9.9"), fmt.Appendf(nil, "{"+properties+"}", "9.9")
		b.ReportAllocs()
		for b.Loop() {
			if !p.Accepts("track", "Event 49", planned, member) {
				b.Fatal("not accepted")
			}
		}
	})
	for name, c := range map[string]struct {
		call []byte
		want int
	}{"as planned": {call("9.9"), 0}, "one violation": {call("-1"), 1}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(c.call)))
			b.ReportAllocs()
			for b.Loop() {
				if got := p.Judge(c.call); len(got) != c.want {
					b.Fatal(got)
				}
			}
		})
	}
}
