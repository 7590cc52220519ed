module github.com/seed-45eadc4a/analytics-go

go 1.25

require github.com/segmentio/backo-go v1.1.0
