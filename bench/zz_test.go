package main
import ("testing";"net/http";"os"
	analytics "github.com/seed-45eadc4a/analytics-go")
func BenchmarkOne(b *testing.B) {
	all := orders(); call := forms[os.Getenv("FORM")]
	client, _ := analytics.NewWithConfig("key", analytics.Config{FlushAt: 640, WhenFull: analytics.Block, HTTPClient: &http.Client{Transport: takeAll{}}})
	b.ResetTimer()
	for i := 0; i < b.N; i++ { call(client, &all[i%variety]) }
}
