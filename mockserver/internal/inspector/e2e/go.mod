module github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/e2e

go 1.26

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/seed-45eadc4a/analytics-go v0.2.0
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/segmentio/backo-go v1.1.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
