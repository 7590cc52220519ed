package shapes_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
)

func TestSchema(t *testing.T) {
	s := shapes.New()
	track(t, s, "Order Completed", slices.Concat(
		times(20, `{"total":12.5,"currency":"EUR","id":"o-1","items":[{"sku":"a","qty":1},{"sku":"b","qty":2,"gift":true}],"at":"2026-11-23T12:00:00Z"}`),
		times(1, `{"total":7,"currency":"USD","id":5,"items":[],"coupon":null,"at":"2026-11-23T12:00:00Z"}`))...)
	got, err := json.MarshalIndent(onlyEvent(t, s).Schema(), "", "  ")
	require.NoError(t, err)
	assert.JSONEq(t, `{
	  "$schema": "https://json-schema.org/draft/2020-12/schema",
	  "title": "Order Completed", "description": "Learned from 21 of 21 calls of source web.",
	  "type": "object", "required": ["type", "event", "properties"],
	  "properties": {
	    "type": {"const": "track"}, "event": {"const": "Order Completed"},
	    "properties": {"type": "object", "required": ["at", "currency", "id", "items", "total"], "properties": {
	      "at": {"type": "string", "format": "date-time"},
	      "coupon": {"type": "null"},
	      "currency": {"type": "string", "enum": ["EUR", "USD"]},
	      "id": {"type": ["integer", "string"]},
	      "items": {"type": "array", "items": {"type": "object", "required": ["qty", "sku"], "properties": {
	        "gift": {"type": "boolean"}, "qty": {"type": "integer"}, "sku": {"type": "string", "enum": ["a", "b"]}}}},
	      "total": {"type": "number"}}}}}`, string(got))
}

func TestLike(t *testing.T) {
	s := shapes.New()
	track(t, s, "Order <b>", slices.Concat(
		times(2, `{"total":12.50,"currency":"EUR","address":{"city":"Ulm","zip":null},"items":[1],"tick":"a`+"`"+`b"}`),
		times(1, `{"total":7,"currency":"USD","address":{"city":"Ulm"},"coupon":"X","tick":"a`+"`"+`b"}`))...)
	assert.Equal(t, `srv.Expect(t, mockserver.Like("{\n\t\"event\": \"Order <b>\",\n\t\"properties\": {\n\t\t\"address\": {\n\t\t\t\"city\": \"Ulm\"\n\t\t},\n\t\t\"currency\": \"EUR\",\n\t\t\"tick\": \"a`+"`"+`b\",\n\t\t\"total\": 12.50\n\t},\n\t\"type\": \"track\"\n}"))
`, onlyEvent(t, s).Like())

	s = shapes.New()
	observe(s, call(t, "web", `{"type":"identify","userId":"u","messageId":"1","traits":{"plan":"Pro"}}`))
	assert.Equal(t, "srv.Expect(t, mockserver.Like(`{\n\t\"traits\": {\n\t\t\"plan\": \"Pro\"\n\t},\n\t\"type\": \"identify\"\n}`))\n", onlyEvent(t, s).Like())
}
