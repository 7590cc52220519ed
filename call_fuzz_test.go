package analytics

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// FuzzCall checks that the encoded call equals the output of encoding/json for the same struct.
func FuzzCall(f *testing.F) {
	f.Add("019mr8mf4r", "anon", "Song Played", "m-1", "artist", "Dwele")
	f.Add("\xff\u2028<&>", "", "\x00\"\\", "", "", "\xed\xa0\x80")
	f.Add("", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, user, anonymous, text, id, key, value string) {
		message := Message{MessageId: id, Timestamp: "2024-02-29T01:02:03.004Z"}
		values := map[string]interface{}{key: value}
		for _, m := range []struct {
			kind kind
			call Call
		}{
			{kindIdentify, &Identify{UserId: user, AnonymousId: anonymous, Traits: values, Message: message}},
			{kindTrack, &Track{UserId: user, AnonymousId: anonymous, Event: text, Properties: values, Message: message}},
			{kindPage, &Page{UserId: user, AnonymousId: anonymous, Name: text, Traits: values, Message: message}},
			{kindScreen, &Screen{UserId: user, AnonymousId: anonymous, Category: text, Context: values, Message: message}},
			{kindGroup, &Group{UserId: user, AnonymousId: anonymous, GroupId: text, Integrations: values, Message: message}},
			{kindAlias, &Alias{UserId: user, AnonymousId: anonymous, PreviousId: text, Context: values, Message: message}},
		} {
			k, err := m.call.call()
			if err != nil {
				continue
			}
			encoded, err := k.append(nil, time.Now().UnixMilli())
			require.NoError(t, err)
			reference, err := json.Marshal(m.call)
			require.NoError(t, err)
			var want, got map[string]interface{}
			require.NoError(t, json.Unmarshal(reference, &want))
			require.NoError(t, json.Unmarshal(encoded, &got), "%s", encoded)
			want["type"] = m.kind.String()
			if id == "" {
				require.Len(t, got["messageId"], wire.IDLen)
				want["messageId"] = got["messageId"]
			}
			require.Equal(t, want, got)
		}
	})
}
