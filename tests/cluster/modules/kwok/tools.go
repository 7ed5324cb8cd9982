//go:build tools

// Package kwok names the commands that the tests' cluster builds, so that `go mod tidy` keeps what they need.
package kwok

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
