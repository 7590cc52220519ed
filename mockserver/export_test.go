package mockserver

// WithEmitCalls makes batches of the collector's own calls small, so that a few
// users make several of them.
func (c Config) WithEmitCalls(n int) Config {
	c.emitCalls = n
	return c
}
