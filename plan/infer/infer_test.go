package infer_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/plan"
	"github.com/seed-45eadc4a/analytics-go/plan/infer"
)

type object = map[string]any

// shopCall returns a random call of a shop. The call matches the shop's plan.
func shopCall(r *rand.Rand) object {
	item := func() object {
		return object{"sku": fmt.Sprintf("SKU-%d", r.IntN(5000)), "quantity": 1 + r.IntN(9), "price": float64(r.IntN(10000)) + 0.5}
	}
	items := func() []any {
		list := make([]any, 1+r.IntN(4))
		for i := range list {
			list[i] = item()
		}
		return list
	}
	pick := func(values ...any) any { return values[r.IntN(len(values))] }
	uuid := fmt.Sprintf("0190b6c3-6c6e-7d2a-8a5b-%012x", r.IntN(1<<40))
	user := fmt.Sprintf("user-%d", r.IntN(1000))
	call := object{"type": "track", "userId": user, "messageId": uuid}
	switch r.IntN(6) {
	case 0, 1:
		call["event"] = "Order Completed"
		properties := object{
			"orderId": uuid, "total": float64(r.IntN(100000)) / 100, "currency": pick("EUR", "USD", "GBP"), "items": items(), "gift": r.IntN(2) == 0,
			"shipping": object{"country": pick("DE", "FR"), "express": r.IntN(2) == 0, "at": fmt.Sprintf("2026-11-%02dT18:00:00Z", 1+r.IntN(28))},
			"tags":     []any{pick("a", "b"), fmt.Sprintf("tag %d", r.IntN(1000))}, "points": r.IntN(500),
		}
		if r.IntN(3) == 0 {
			properties["coupon"] = pick(nil, fmt.Sprintf("C%d", r.IntN(10000)))
		}
		call["properties"] = properties
	case 2:
		call["event"] = "Product Viewed"
		call["properties"] = object{"url": fmt.Sprintf("https://shop.example/p/%d", r.IntN(9999)), "position": r.IntN(40)}
	case 3:
		call["type"], call["name"] = "page", pick("Home", "Cart")
		call["properties"] = object{"path": fmt.Sprintf("/p/%d", r.IntN(100000))}
	case 4:
		call["type"] = "identify"
		call["traits"] = object{"email": fmt.Sprintf("u%d@shop.example", r.IntN(99999)), "age": 18 + r.IntN(60)}
	case 5:
		call["type"], call["groupId"] = "group", "g1"
		call["traits"] = object{"plan": pick("free", "pro"), "seats": r.IntN(100)}
	}
	return call
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func parse(t testing.TB, x *infer.Inference) *plan.Plan {
	t.Helper()
	var b strings.Builder
	if _, err := x.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	p, err := plan.Parse("inferred.yaml", []byte(b.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return p
}

// mutations contains changes that make an order invalid, with the kind of the violation.
var mutations = []struct {
	name   string
	kind   plan.Kind
	change func(call, properties, shipping, item object)
}{
	{"event in snake case", plan.UnplannedEvent, func(c, _, _, _ object) { c["event"] = "order_completed" }},
	{"event of another name", plan.UnplannedEvent, func(c, _, _, _ object) { c["event"] = "Refunded" }},
	{"event is a number", plan.UnplannedEvent, func(c, _, _, _ object) { c["event"] = 7 }},
	{"page of another name", plan.UnplannedEvent, func(c, _, _, _ object) { c["type"], c["name"] = "page", "Checkout" }},
	{"no properties", plan.MissingProperty, func(c, _, _, _ object) { delete(c, "properties") }},
	{"property is missing", plan.MissingProperty, func(_, p, _, _ object) { delete(p, "total") }},
	{"nested property is missing", plan.MissingProperty, func(_, _, s, _ object) { delete(s, "country") }},
	{"property of an item is missing", plan.MissingProperty, func(_, _, _, i object) { delete(i, "sku") }},
	{"number as a string", plan.WrongType, func(_, p, _, _ object) { p["total"] = "12.50" }},
	{"string as a number", plan.WrongType, func(_, p, _, _ object) { p["orderId"] = 12 }},
	{"boolean as a string", plan.WrongType, func(_, p, _, _ object) { p["gift"] = "true" }},
	{"integer with a fraction", plan.WrongType, func(_, p, _, _ object) { p["points"] = 1.5 }},
	{"null", plan.WrongType, func(_, p, _, _ object) { p["total"] = nil }},
	{"object as a list", plan.WrongType, func(_, p, s, _ object) { p["shipping"] = []any{s} }},
	{"list as an object", plan.WrongType, func(_, p, _, i object) { p["items"] = i }},
	{"item as a string", plan.WrongType, func(_, p, _, _ object) { p["items"] = []any{"SKU-1"} }},
	{"quantity of an item as a string", plan.WrongType, func(_, _, _, i object) { i["quantity"] = "2" }},
	{"properties are a list", plan.WrongType, func(c, _, _, _ object) { c["properties"] = []any{} }},
	{"value not in the enum", plan.InvalidValue, func(_, p, _, _ object) { p["currency"] = "eur" }},
	{"nested value not in the enum", plan.InvalidValue, func(_, _, s, _ object) { s["country"] = "XX" }},
	{"not a uuid", plan.InvalidValue, func(_, p, _, _ object) { p["orderId"] = "12" }},
	{"not a time", plan.InvalidValue, func(_, _, s, _ object) { s["at"] = "yesterday" }},
	{"misspelled property", plan.UnplannedProperty, func(_, p, _, _ object) { p["copuon"] = "C1" }},
	{"unplanned nested property", plan.UnplannedProperty, func(_, _, s, _ object) { s["zip"] = "1" }},
	{"unplanned property of an item", plan.UnplannedProperty, func(_, _, _, i object) { i["color"] = "red" }},
}

func TestInferredPlanAcceptsInputAndRefusesMutations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := infer.New(infer.Config{Name: "shop"})
	var calls [][]byte
	for range 10_000 {
		calls = append(calls, encode(t, shopCall(r)))
		if err := x.Add(calls[len(calls)-1]); err != nil {
			t.Fatal(err)
		}
	}
	p := parse(t, x)
	for _, call := range calls {
		if violations := p.Judge(call); violations != nil {
			t.Fatalf("%s\n%v", call, violations)
		}
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			for range 50 {
				call := shopCall(r)
				for call["event"] != "Order Completed" {
					call = shopCall(r)
				}
				properties := call["properties"].(object)
				items := properties["items"].([]any)
				m.change(call, properties, properties["shipping"].(object), items[len(items)-1].(object))
				violations := p.Judge(encode(t, call))
				if len(violations) == 0 || violations[0].Kind != m.kind {
					t.Fatalf("%s\ngot %v, want %s", encode(t, call), violations, m.kind)
				}
			}
		})
	}
}

func TestInferredPlanText(t *testing.T) {
	x := infer.New(infer.Config{Name: "doubts", EnumRepeats: 2})
	for i := range 10 {
		properties := object{"quantity": any(i), "currency": []any{"EUR", "USD"}[i%2], "deep": object{"list": []any{object{"a b": 1.5}, object{"a b": 1}}}}
		if i == 0 {
			properties["quantity"] = "1"
		}
		if i < 4 {
			properties["yes"] = nil
		}
		if err := x.Add(encode(t, object{"type": "track", "event": "Added", "properties": properties})); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	if _, err := x.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	want := `# Inferred from 10 calls. Review it before use: the calls may contain
# mistakes, and other values may be valid.
plan: doubts
track:
  Added: # 10 calls
    properties:
      currency: {type: string, enum: [EUR, USD], required: true} # from 10 values
      deep:
        type: object
        required: true
        properties:
          list:
            type: array
            required: true
            items:
              type: object
              properties:
                a b: {type: number, required: true}
              additionalProperties: false
        additionalProperties: false
      quantity: {type: [string, integer], required: true} # 90 % integer, 10 % string
      "yes": {type: "null"} # in 40 %
    additionalProperties: false
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	parse(t, x)
}

func TestOutputIgnoresCallOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var calls [][]byte
	for range 500 {
		calls = append(calls, encode(t, shopCall(r)))
	}
	write := func() string {
		x := infer.New(infer.Config{})
		for _, call := range calls {
			if err := x.Add(call); err != nil {
				t.Fatal(err)
			}
		}
		var b strings.Builder
		if _, err := x.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first := write()
	slices.Reverse(calls)
	if second := write(); first != second {
		t.Errorf("got\n%s\nwant\n%s", second, first)
	}
}

// An Inference uses bounded memory even if all property names are different.
func TestInferenceMemoryIsBounded(t *testing.T) {
	x := infer.New(infer.Config{MaxMemory: 5000, MaxEntries: 50})
	var last []byte
	grow := func(from, to int) {
		for i := from; i < to; i++ {
			last = encode(t, object{"type": "track", "event": fmt.Sprint("Event ", i), "properties": object{
				fmt.Sprint("property ", i): object{fmt.Sprint("nested ", i): []any{fmt.Sprint("text ", i), i, nil, object{fmt.Sprint(i): 1}}},
				"fixed":                    strings.Repeat("x", 1000) + fmt.Sprint(i),
			}})
			if err := x.Add(last); err != nil {
				t.Fatal(err)
			}
		}
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	grow(0, 20_000)
	before := heap()
	grow(20_000, 60_000)
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("40,000 more calls took %d bytes", grown)
	}
	p := parse(t, x)
	if violations := p.Judge(last); violations != nil {
		t.Errorf("%s\n%v", last, violations)
	}
	runtime.KeepAlive(x)
}

func TestAddRefusesInvalidCalls(t *testing.T) {
	x := infer.New(infer.Config{})
	for _, text := range []string{``, `[]`, `{}`, `{"type":1}`, `{"type":"track"`, `null`} {
		if err := x.Add([]byte(text)); err == nil {
			t.Errorf("%q is accepted as a call", text)
		}
	}
	for _, text := range []string{`{"type":"alias"}`, `{"type":"delete"}`} {
		if err := x.Add([]byte(text)); err != nil {
			t.Error(err)
		}
	}
	if taken, ignored := x.Calls(); taken != 0 || ignored != 2 {
		t.Errorf("%d taken, %d ignored; want 0, 2", taken, ignored)
	}
}

func TestFieldNamesAreCaseSensitive(t *testing.T) {
	call := []byte(`{"type":"track","event":"A","Event":"B","Properties":{"a":1}}`)
	x := infer.New(infer.Config{})
	if err := x.Add(call); err != nil {
		t.Fatal(err)
	}
	if violations := parse(t, x).Judge(call); violations != nil {
		t.Error(violations)
	}
}

// FuzzInfer infers a plan from arbitrary calls, and checks that they match the plan.
func FuzzInfer(f *testing.F) {
	f.Add("Order Completed", `{"a":1,"b":[{"c":null},1.5e3],"true":"x","~/":{"":{}}}`)
	f.Add("null", `{"a\n: b":[[],[[]],{}],"#":"# no","- x":" ","\u0000":"\u2028\ud83d\ude00"}`)
	f.Add("", `["no object",{"a":1}]`)
	f.Add(": {", `{"a":"2026-11-22T18:00:00Z","b":"a@b.example","c":1e400,"d":-0}`)
	f.Fuzz(func(t *testing.T, name, properties string) {
		if !json.Valid([]byte(properties)) {
			t.Skip()
		}
		var decoded object
		if json.Unmarshal([]byte(properties), &decoded) == nil {
			for key := range maps.Keys(decoded) {
				if len(key) > 500 {
					t.Skip()
				}
			}
		}
		call := encode(t, object{"type": "track", "event": name, "properties": json.RawMessage(properties)})
		for _, config := range []infer.Config{{EnumRepeats: 1}, {MaxProperties: 1}, {MaxMemory: 2, MaxEnum: -1}} {
			x := infer.New(config)
			for range 3 {
				if err := x.Add(call); err != nil {
					t.Skip() // encoding/json does not allow this depth
				}
			}
			p := parse(t, x)
			if violations := p.Judge(call); violations != nil {
				var b strings.Builder
				_, _ = x.WriteTo(&b)
				t.Fatalf("%s\n%s\n%v", call, b.String(), violations)
			}
		}
	})
}
