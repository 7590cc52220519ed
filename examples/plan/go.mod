module github.com/seed-45eadc4a/analytics-go/examples/plan

go 1.26.0

require (
	github.com/seed-45eadc4a/analytics-go v0.2.0
	github.com/seed-45eadc4a/analytics-go/plan v0.2.0
)

require (
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/segmentio/backo-go v1.1.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
