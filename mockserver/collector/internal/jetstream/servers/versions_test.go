package servers

import (
	"testing"
)

func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"2.15.0": true, "2.15.2": true, "v2.15.1": true, "3.0.0": true, "2.15.0-beta.1": true,
		"2.14.5": false, "1.99.0": false, "": false, "x.y": false,
	} {
		if got := atLeast(version, minServer); got != want {
			t.Errorf("atLeast(%q) = %v", version, got)
		}
	}
}
