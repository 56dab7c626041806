// Package wec has the rights that OCM's agent needs in a workload execution cluster.
package wec

import "embed"

// FS has work-agent.yaml and work-agent-listed.yaml.
//
//go:embed work-agent.yaml work-agent-listed.yaml
var FS embed.FS
