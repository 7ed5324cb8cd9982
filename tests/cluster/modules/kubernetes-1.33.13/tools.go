//go:build tools

// Package kubernetes names the commands that the tests' cluster builds, so that `go mod tidy` keeps what they need.
package kubernetes

import (
	_ "k8s.io/kubernetes/cmd/kubelet"
)
