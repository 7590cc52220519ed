package main

import (
	_ "embed"
	"fmt"
	"log"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/plan"
)

//go:embed plan.yaml
var planFile []byte

func main() {
	p, err := plan.Parse("plan.yaml", planFile)
	if err != nil {
		log.Fatal(err)
	}
	srv, err := mockserver.Run(mockserver.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = srv.Close() }()

	client := analytics.New("any-key")
	client.Endpoint = srv.URL
	shop := Shop{client}
	if err := shop.Visit("ada"); err != nil {
		log.Print(err)
	}
	if err := shop.Mistakes("bob"); err != nil {
		log.Print(err)
	}
	if err := client.Close(); err != nil {
		log.Print(err)
	}

	report := p.NewReport()
	for call := range srv.Bodies() {
		report.Add(call)
	}
	fmt.Println(report)
}
