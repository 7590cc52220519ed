package service

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFreeMemoryEmptiesPools checks that the buffers in pools are freed, because those of the queue take
// many megabytes. A pool survives the first garbage collection.
func TestFreeMemoryEmptiesPools(t *testing.T) {
	var pool sync.Pool
	pool.Put(new([]byte))
	freeMemory()
	assert.Nil(t, pool.Get())
}
