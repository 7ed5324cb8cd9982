//go:build tools

// Package containerd names the commands that the tests' cluster builds, so that `go mod tidy` keeps what they need.
package containerd

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
