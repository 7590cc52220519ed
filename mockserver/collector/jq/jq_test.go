package jq_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/jq"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const call = `{"version":1,"type":"track","userId":"u1","event":"Order Completed","properties":{"total":9.5,"id":12345678901234567,"items":[{"sku":"a"},{"sku":"b"}]},"timestamp":"2026-01-02T03:04:05.000Z"}`

// apply transforms a body. On a busy machine, it repeats runs that exceed the time limit.
func apply(transform webhook.Transform, body []byte) (out []byte, err error) {
	for range 100 {
		if out, err = transform(body); !errors.Is(err, webhook.ErrRetryTransform) {
			break
		}
	}
	return out, err
}

func TestTransform(t *testing.T) {
	for program, want := range map[string]string{
		`.`:                                   `{"event":"Order Completed","properties":{"id":12345678901234568,"items":[{"sku":"a"},{"sku":"b"}],"total":9.5},"timestamp":"2026-01-02T03:04:05.000Z","type":"track","userId":"u1","version":1}`,
		`{text: "\(.userId) did \(.event)"}`:  `{"text":"u1 did Order Completed"}`,
		`select(.type == "page")`:             ``,
		`empty`:                               ``,
		`null`:                                `null`,
		`[.properties.items[].sku] | add`:     `"ab"`,
		`add(.properties.items[].sku)`:        `"ab"`,
		`.properties.total * 2`:               `19`,
		`.properties | .total *= 2 | .total`:  `19`,
		`"ab" * 3`:                            `"ababab"`,
		`[("a","b") * (1,2)]`:                 `["a","b","aa","bb"]`,
		`.properties | {a: 1} * {b: 2}`:       `{"a":1,"b":2}`,
		`del(.properties, .timestamp) | keys`: `["event","type","userId","version"]`,
		`[paths] | length`:                    `13`,
		`(.properties.items | first) = 1 | .properties.items`:    `[1,{"sku":"b"}]`,
		`getpath(["a","b"]) = 1 | .a`:                            `{"b":1}`,
		`(.. | strings) |= ascii_downcase | .event`:              `"order completed"`,
		`def f(g): g | g; f(.userId? // "x" | ascii_upcase)`:     `"X"`,
		`[.properties | to_entries[] | .key]`:                    `["id","items","total"]`,
		`.properties.items | map(.sku) | join(", ")`:             `"a, b"`,
		`.properties.items[1:] | length`:                         `1`,
		`.event | gsub("[aeiou]"; "_")`:                          `"Ord_r C_mpl_t_d"`,
		`@base64 "x\(.userId)"`:                                  `"xdTE="`,
		`.userId | @json`:                                        `"\"u1\""`,
		`.timestamp | .[0:19] + "Z" | fromdate | strftime("%Y")`: `"2026"`,
		`$ENV`:                         `{}`,
		`env`:                          `{}`,
		`.properties.items[0:1][].sku`: `"a"`,
		`.properties | .total -= 1 | .total /= 2 | .total`: `4.25`,
		`.a //= 1 | .a`: `1`,
		`[5, 6] - [6]`:  `[5]`,
		`.event | [contains("Order"), inside("My Order Completed"), index("Completed")]`: `[true,true,6]`,
		`def total(f): reduce f as $x (0; . + $x); total(1, 2)`:                          `3`,
		`[.event | scan("[A-Z]"; "g")]`:                                                  `["O","C"]`,
		`.event | [split(" "), split(" +"; null), test("ORDER"; "i")]`:                   `[["Order","Completed"],["Order","Completed"],true]`,
		`[.properties.items[] | .sku] | sort_by(.) | unique`:                             `["a","b"]`,
		`"12" | tonumber + 1`:                                `13`,
		`[limit(3; repeat("x"))] | join("-")`:                `"x-x-x"`,
		`path(.properties.items[0].sku)`:                     `["properties","items",0,"sku"]`,
		`getpath(["properties", "items", 0, "sku"])`:         `"a"`,
		`try error("x") catch .`:                             `"x"`,
		`reduce range(5) as $i (0; . + $i)`:                  `10`,
		`[.[]?] | first(.[] | numbers)`:                      `1`,
		`.properties.items |= map(.sku) | .properties.items`: `["a","b"]`,
	} {
		transform, err := jq.Compile(program)
		if !assert.NoError(t, err, program) {
			continue
		}
		body, err := apply(transform, []byte(call))
		assert.NoError(t, err, program)
		assert.Equal(t, want, string(body), program)
	}
}

func TestInvalidPrograms(t *testing.T) {
	for program, want := range map[string]string{
		`{`:                               "unexpected end of the program",
		`nosuch`:                          "function not defined: nosuch/0",
		`$x`:                              "variable not defined: $x",
		`$%operand`:                       `unexpected token "$"`,
		`input`:                           "input(s)/0 is not allowed",
		`[inputs]`:                        "input(s)/0 is not allowed",
		`input_filename`:                  "function not defined: input_filename/0",
		`debug`:                           "function not defined: debug/0",
		`import "a" as a; 1`:              `cannot load module: "a"`,
		`include "a"; 1`:                  `cannot load module: "a"`,
		`"a" | _multiply(1e9; "x")`:       "the function _multiply is not available",
		`fromstream([[[1e9],1]][])`:       "the function fromstream is not available",
		`def join($x): 1; join("a")`:      "the function join cannot be redefined",
		`test(.event)`:                    `the pattern and the flags of test must be literal strings, such as test("[a-z]")`,
		`gsub("a"; "b"; .flags)`:          `the pattern and the flags of gsub must be literal strings, such as gsub("[a-z]")`,
		`test("[a-z]{1000}")`:             "a regular expression is too large: it has 1002 instructions; the limit is 1000",
		`test("(")`:                       "invalid regular expression: error parsing regexp: missing closing ): `(`",
		`now | strftime("%999d")`:         "the format of strftime must be a literal string, without a padding of more than two digits",
		`now | strftime("%\(.n)d")`:       "the format of strftime must be a literal string, without a padding of more than two digits",
		strings.Repeat(" ", 16<<10) + ".": "has 16385 bytes; the limit is 16384",
	} {
		_, err := jq.Compile(program)
		assert.EqualError(t, err, want, "%.50s", program)
	}
}

func TestConcurrentTransforms(t *testing.T) {
	transform, err := jq.Compile(`.n * 2 | tostring | test("^[0-9]+$") | not | not`)
	assert.NoError(t, err)
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			for range 100 {
				body, err := apply(transform, fmt.Appendf(nil, `{"n":%d}`, i))
				assert.NoError(t, err)
				assert.Equal(t, "true", string(body))
			}
		})
	}
	running.Wait()
}
