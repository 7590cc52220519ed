package timeline

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A call may repeat a short trait many times, and the current value may be long.
func TestCurrentTraitsContainEachNameOnce(t *testing.T) {
	traits := &Traits{}
	traits.set([]byte(`{"a":1,"b":2}`))
	assert.Equal(t, `{"b":2,"a":1}`, string(traits.current([]byte(`{"b":0`+strings.Repeat(`,"a":0,"\u0061":0`, 1000)+`}`))))
}
