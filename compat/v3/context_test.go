package analytics

import (
	"encoding/json"
	"math"
	"net"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

func TestContextMarshalJSON(t *testing.T) {
	for _, tt := range []struct {
		context Context
		want    string
	}{
		{Context{}, `{}`},
		{Context{Library: LibraryInfo{Name: "testing"}}, `{"library":{"name":"testing"}}`},
		{Context{Extra: map[string]interface{}{"answer": 42}}, `{"answer":42}`},
		{Context{Extra: map[string]interface{}{"app": 1, "os": 2}, OS: OSInfo{Name: "linux"}}, `{"app":1,"os":{"name":"linux"}}`},
		{Context{App: AppInfo{Version: "1", Name: "<n>"}}, `{"app":{"name":"\u003cn\u003e","version":"1"}}`},
		{Context{IP: net.ParseIP("203.0.113.7"), Direct: true, GroupID: "g"}, `{"direct":true,"groupId":"g","ip":"203.0.113.7"}`},
		{Context{Traits: Traits{}, Extra: map[string]interface{}{}}, `{}`},
	} {
		got, err := json.Marshal(tt.context)
		require.NoError(t, err)
		require.Equal(t, tt.want, string(got))
	}
	_, err := json.Marshal(Context{IP: net.IP{1}})
	require.Error(t, err)
}

// FuzzContextIsWrittenAsItIsMarshalled checks that the client and encoding/json encode a context
// equally. Each bit of fields decides whether a field is set.
func FuzzContextIsWrittenAsItIsMarshalled(f *testing.F) {
	f.Add("text", 7, 1.5, []byte{203, 0, 113, 7}, uint64(math.MaxUint64))
	f.Add("<&>\u2028\xff\"", -1, -1e-7, []byte("0123456789abcdef"), uint64(0x5555555555555555))
	f.Add("", 0, 0.0, []byte{}, uint64(math.MaxUint64))
	f.Add("é", math.MaxInt, math.NaN(), []byte{1}, uint64(1)<<63|1<<40)
	f.Fuzz(func(t *testing.T, text string, n int, x float64, ip []byte, fields uint64) {
		c := Context{IP: ip, Extra: map[string]interface{}{"app": n, "more": text}}
		set(reflect.ValueOf(&c).Elem(), &fields, text, n, x+0) // x+0 converts -0 to 0
		want, wantErr := json.Marshal(c)
		m := map[string]interface{}{}
		c.addTo(m)
		got, err := wire.AppendMap(nil, m, "context")
		require.Equal(t, wantErr == nil, err == nil, "%v, %v", wantErr, err)
		if err == nil {
			var wanted, gotten interface{}
			require.NoError(t, json.Unmarshal(want, &wanted))
			require.NoError(t, json.Unmarshal(got, &gotten), "%s", got)
			require.Equal(t, wanted, gotten)
		}
	})
}

// set sets each field of the structs in v if the next bit of fields is 1.
func set(v reflect.Value, fields *uint64, text string, n int, x float64) {
	for i := range v.NumField() {
		field := v.Field(i)
		if field.Kind() == reflect.Struct {
			set(field, fields, text, n, x)
			continue
		}
		chosen := *fields&1 != 0
		*fields = *fields>>1 | *fields<<63
		if !chosen {
			continue
		}
		switch field.Kind() {
		case reflect.String:
			field.SetString(text)
		case reflect.Int:
			field.SetInt(int64(n))
		case reflect.Float64:
			field.SetFloat(x)
		case reflect.Bool:
			field.SetBool(true)
		}
	}
}

// Each field of a context is encoded with the name in its tag.
func TestContextFields(t *testing.T) {
	full := Context{
		App: AppInfo{"a", "b", "c", "d"}, Campaign: CampaignInfo{"a", "b", "c", "d", "e"},
		Device: DeviceInfo{"a", "b", "c", "d", "e", "f", "g"}, Library: LibraryInfo{"a", "b"},
		Location: LocationInfo{"a", "b", "c", 1.5, -2, 1e21}, Network: NetworkInfo{true, true, true, "a"},
		OS: OSInfo{"a", "b"}, Page: PageInfo{"a", "b", "c", "d", "e", "f"}, Referrer: ReferrerInfo{"a", "b", "c", "d"},
		Screen: ScreenInfo{1, 2, 3},
	}
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		if v.Field(i).Kind() != reflect.Struct {
			continue
		}
		for j := range v.Field(i).NumField() {
			var one Context
			reflect.ValueOf(&one).Elem().Field(i).Field(j).Set(v.Field(i).Field(j))
			want, err := json.Marshal(one)
			require.NoError(t, err)
			m := map[string]interface{}{}
			one.addTo(m)
			got, err := wire.AppendMap(nil, m, "context")
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		}
	}
}
