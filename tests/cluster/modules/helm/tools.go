//go:build tools

// Package helm names the commands that the tests' cluster builds, so that `go mod tidy` keeps what they need.
package helm

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
