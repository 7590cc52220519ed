module github.com/seed-45eadc4a/analytics-go/nemesis

go 1.26.0

require (
	github.com/hanwen/go-fuse/v2 v2.12.1
	github.com/seed-45eadc4a/analytics-go v0.2.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/sys v0.49.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
