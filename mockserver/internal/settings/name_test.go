package settings_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
)

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"", "shop-123", "a key", "schlüssel"} {
		require.Nil(t, settings.CheckKey("writeKey", key), "%q", key)
	}
	for _, key := range []string{"secret\n", "secret\r\n", " secret", "secret\t", "\u00a0secret", "\xff", "a\x00b", "a\nb", "\ufeffsecret", "sec\u200bret", "secret:"} {
		err := settings.CheckKey("writeKey", key)
		require.NotNil(t, err, "%q", key)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestCheckSecretAllowsColons(t *testing.T) {
	require.Nil(t, settings.CheckSecret("sharedSecret", "a: b"))
	require.EqualError(t, settings.CheckSecret("sharedSecret", "\ufeffhush"), "sharedSecret: contains the invisible character U+FEFF: remove it, or type the value again")
}
