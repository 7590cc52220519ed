package analytics

// SetMapping says whether the spools that are opened from now on may map files
// into memory, and returns what puts it back.
func SetMapping(on bool) (restore func()) {
	before := noMapping
	noMapping = !on
	return func() { noMapping = before }
}
