package pipeline

import "time"

// clock returns the current time. It takes half as long as time.Now, because it usually reads
// only the monotonic clock. It detects changes of the system clock within clockAge.
type clock struct {
	read time.Time
	unix int64         // the time of read, in nanoseconds since 1970
	age  time.Duration // the time from read to the last call of milli
}

// clockAge is the longest time for which clock relies on the monotonic clock.
const clockAge = time.Millisecond

// milli returns the time in milliseconds since 1970.
func (c *clock) milli() int64 {
	if c.age = time.Since(c.read); c.age < 0 || c.age >= clockAge {
		c.read, c.age = time.Now(), 0
		c.unix = c.read.UnixNano()
	}
	return (c.unix + int64(c.age)) / 1e6
}

// now returns the time of the last call of milli.
func (c *clock) now() time.Time { return c.read.Add(c.age) }
