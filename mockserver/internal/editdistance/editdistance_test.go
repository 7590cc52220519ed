package editdistance

import "testing"

func TestOf(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"listen", "listen", 0}, {"lisen", "listen", 1},
		{"sned", "send", 2}, {"kitten", "sitting", 3}, {"Order Completed", "order_completed", 3},
	} {
		if got := Of(c.a, c.b); got != c.want {
			t.Errorf("Of(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Of(c.b, c.a); got != c.want {
			t.Errorf("Of(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
