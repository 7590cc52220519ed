module github.com/seed-45eadc4a/analytics-go

go 1.25

require (
	github.com/google/go-cmp v0.7.0
	github.com/segmentio/backo-go v1.1.0
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
