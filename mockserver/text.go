package mockserver

import (
	"strconv"
	"strings"
)

// cut shortens a text to n characters, with an ellipsis.
func cut(n int, s string) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// cutBytes shortens a text to n bytes or a few less, with an ellipsis.
func cutBytes(n int, s string) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// groupDigits writes 1234567 as 1,234,567.
func groupDigits[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// plural writes a number with its noun: 1 call, 2 calls.
func plural[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return groupDigits(n) + " " + many
}
