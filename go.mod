module github.com/seed-45eadc4a/analytics-go

go 1.25

require github.com/segmentio/backo-go v1.1.0

require (
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
