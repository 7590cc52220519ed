module github.com/seed-45eadc4a/analytics-go/plan

go 1.26.0

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/seed-45eadc4a/analytics-go v0.2.0
	golang.org/x/text v0.43.0
)
