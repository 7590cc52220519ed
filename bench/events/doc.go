package events

//go:generate go run github.com/seed-45eadc4a/analytics-go/plan/gen -o events.go plan.yaml
