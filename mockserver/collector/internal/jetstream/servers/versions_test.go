package servers

import (
	"testing"
)

func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"2.15.1": true, "v2.15.1": true, "2.15.2": true, "2.15.10": true, "2.16.0": true, "3.0.0": true,
		"2.15.2-beta.1": true, "2.16.0-RC.1": true, "2.15.1+build-7": true,
		"2.15.0": false, "2.15.1-beta.1": false, "2.15.1-RC.2+build": false, "2.14.5": false, "2.14.9": false, "1.99.9": false,
		"2.15": false, "3": false, "": false, "x.y.z": false, "2.15.x": false, "2.15.1.1": false,
	} {
		if got := atLeast(version, minServer); got != want {
			t.Errorf("atLeast(%q) = %v", version, got)
		}
	}
}
