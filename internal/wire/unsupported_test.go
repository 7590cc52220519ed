package wire

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// For an unsupported value at any position, the encoder returns the same error as encoding/json.
func TestUnsupportedValuesAreErrorsOfEncodingJSON(t *testing.T) {
	for title, v := range unsupportedValues() {
		_, err := AppendMap(nil, map[string]interface{}{"v": v}, "properties")
		require.ErrorAs(t, err, new(*json.UnsupportedValueError), title)
	}
	for title, v := range unsupportedTypes() {
		_, err := AppendMap(nil, map[string]interface{}{"v": v}, "properties")
		require.ErrorAs(t, err, new(*json.UnsupportedTypeError), title)
	}
}

type (
	unsupportedFloat float64
	structOf         struct{ V interface{} }
	floatField       struct{ V float64 }
	chanField        struct{ V chan int }
)

// unsupportedValues returns values that contain a NaN or an infinity, each at a different position.
func unsupportedValues() map[string]interface{} {
	nan := math.NaN()
	values := inPositions(nan)
	for title, v := range map[string]interface{}{
		"infinity":       math.Inf(1),
		"-infinity":      math.Inf(-1),
		"float32":        float32(nan),
		"named float":    unsupportedFloat(nan),
		"float pointer":  &nan,
		"[]float64":      []float64{nan},
		"[]float32":      []float32{float32(nan)},
		"[1]float64":     [1]float64{nan},
		"float map":      map[string]float64{"v": nan},
		"map by int":     map[int]float64{1: nan},
		"float field":    floatField{nan},
		"struct pointer": &floatField{nan},
	} {
		values[title] = v
	}
	return values
}

// unsupportedTypes returns values that contain a channel, a function or a complex number, each at a
// different position.
func unsupportedTypes() map[string]interface{} {
	types := inPositions(make(chan int))
	for title, v := range map[string]interface{}{
		"function":       func() {},
		"complex64":      complex64(1),
		"complex128":     complex128(1),
		"chan field":     chanField{make(chan int)},
		"chan slice":     []chan int{nil},
		"chan map":       map[string]chan int{"v": nil},
		"float key":      map[float64]int{1: 1},
		"bool key":       map[bool]int{true: 1},
		"struct key":     map[chanField]int{{}: 1},
		"interface key":  map[interface{}]int{"v": 1},
		"struct pointer": &chanField{make(chan int)},
	} {
		types[title] = v
	}
	return types
}

func inPositions(v interface{}) map[string]interface{} {
	return map[string]interface{}{
		"value":                v,
		"map value":            map[string]interface{}{"v": v},
		"map of maps":          map[string]map[string]interface{}{"m": {"v": v}},
		"slice element":        []interface{}{1, v},
		"array element":        [1]interface{}{v},
		"pointer to interface": &v,
		"struct field":         structOf{v},
		"struct in a slice":    []structOf{{v}},
	}
}
