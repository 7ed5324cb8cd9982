//go:build tools

// Package karpenter names the commands that the tests' cluster builds, so that `go mod tidy` keeps what they need.
package karpenter

import (
	_ "sigs.k8s.io/karpenter/kwok"
)
