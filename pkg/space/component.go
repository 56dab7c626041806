package space

import (
	"path"
	"slices"
	"strings"
)

// Programs, as they stand on a command line. Those of Kubernetes, etcd and OCM are subcommands
// of the starling binary.
const (
	programEtcd              = "etcd"
	programAPIServer         = "kube-apiserver"
	programControllerManager = "kube-controller-manager"
	programScheduler         = "kube-scheduler"
)

// Stage says when a component is stopped: the lower stages first.
type Stage int

// The stages, in the order of stopping.
const (
	StageController Stage = iota
	StageAPIServer
	StageStorage
)

// Component says how to run one process of a fleet.
type Component struct {
	// Name is unique in the fleet: "etcd" or "<space>/<program>".
	Name string `json:"name"`
	// Path and Args are the command line.
	Path string   `json:"path"`
	Args []string `json:"args"`
	// Env is the whole environment.
	Env []string `json:"env"`
	// Probe answers when the component is ready.
	Probe Probe `json:"probe"`
	// Address is where the component listens.
	Address string `json:"address"`
	// Stage says when it is stopped.
	Stage Stage `json:"stage"`
}

// Space returns the space of the component, or "" for one that serves all spaces.
func (c *Component) Space() string { return spaceOf(c.Name) }

// Program returns the name of the program that the component runs.
func (c *Component) Program() string { return programOf(c.Name) }

// componentName is the name of a program that serves one space.
func componentName(space, program string) string { return path.Join(space, program) }

func spaceOf(component string) string {
	space, _, found := strings.Cut(component, "/")
	if !found {
		return ""
	}
	return space
}

func programOf(component string) string { return path.Base(component) }

func (c *Component) equal(o *Component) bool {
	return c.Path == o.Path && slices.Equal(c.Args, o.Args) && slices.Equal(c.Env, o.Env) &&
		c.Probe == o.Probe
}
