module github.com/seed-45eadc4a/analytics-go/bench

go 1.26

require (
	github.com/posthog/posthog-go v1.23.1
	github.com/seed-45eadc4a/analytics-go v0.2.0
	github.com/segmentio/analytics-go/v3 v3.3.0
)

require (
	github.com/andybalholm/brotli v1.1.1 // indirect
	github.com/goccy/go-json v0.10.6 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	github.com/klauspost/compress v1.17.11 // indirect
	github.com/segmentio/backo-go v1.1.0 // indirect
	golang.org/x/sys v0.21.0 // indirect
)
