// Package wec has the rights that OCM's agent needs in a workload execution cluster.
package wec

import "embed"

// FS has work-agent.yaml.
//
//go:embed work-agent.yaml
var FS embed.FS
