package localfleet

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Names of programs on a command line. Those of Kubernetes, etcd and OCM are subcommands of the
// starling binary.
const (
	programEtcd              = "etcd"
	programAPIServer         = "kube-apiserver"
	programControllerManager = "kube-controller-manager"
	programScheduler         = "kube-scheduler"
	programRegistration      = "ocm-registration"
	programAddonManager      = "ocm-addon-manager"
	programWebhook           = "ocm-webhook"
	programKlusterlet        = "klusterlet"
	// programKwok simulates kubelets: it reports that the pods of its nodes run.
	programKwok        = "kwok"
	programBinding     = "binding-controller"
	programTransport   = "transport-controller"
	programStatusAgent = "status-agent"
	programPackages    = "package-server"
)

// program is how a program runs in any space.
type program struct {
	// subcommand is true if the program is a hidden subcommand of the starling binary. Otherwise it
	// is a file in BinDir.
	subcommand bool
	// gogc and memory are settings of the Go runtime.
	gogc   int
	memory string
	// ready is the URL that returns 200 when the program is ready, with %s for its address. If
	// empty, the program is ready when it accepts connections.
	ready string
	// prober is the client certificate of the probe, if it needs one.
	prober string
	stage  Stage
}

var programs = map[string]program{
	programEtcd:              {subcommand: true, gogc: 80, memory: "400MiB", ready: "https://%s/readyz", prober: "probe", stage: StageStorage},
	programAPIServer:         {subcommand: true, gogc: 100, memory: "600MiB", ready: "https://%s/readyz", prober: "admin", stage: StageAPIServer},
	programControllerManager: {subcommand: true, gogc: 80, memory: "250MiB", ready: "https://%s/healthz"},
	programScheduler:         {subcommand: true, gogc: 50, memory: "200MiB", ready: "https://%s/readyz"},
	programRegistration:      {subcommand: true, gogc: 80, memory: "200MiB", ready: "https://%s/healthz"},
	programAddonManager:      {subcommand: true, gogc: 80, memory: "200MiB", ready: "https://%s/healthz"},
	programKlusterlet:        {subcommand: true, gogc: 80, memory: "200MiB", ready: "https://%s/healthz"},
	programWebhook:           {subcommand: true, gogc: 80, memory: "150MiB"},
	programKwok:              {gogc: 50, memory: "150MiB", ready: "http://%s/healthz"},
	programBinding:           {gogc: 100, memory: "400MiB", ready: "http://%s/readyz"},
	programTransport:         {gogc: 100, memory: "400MiB", ready: "http://%s/readyz"},
	programStatusAgent:       {gogc: 100, memory: "400MiB", ready: "http://%s/readyz"},
	programPackages:          {gogc: 100, memory: "300MiB", ready: "https://%s/readyz"},
}

// Stage is the order in which components are stopped: lower stages first.
type Stage int

// The stages, in the order in which they are stopped.
const (
	StageController Stage = iota
	StageAPIServer
	StageStorage
)

// Component describes how to run one process of a fleet.
type Component struct {
	// Name is unique in the fleet: "etcd" or "<space>/<program>".
	Name string `json:"name"`
	// Path and Args are the command line.
	Path string   `json:"path"`
	Args []string `json:"args"`
	// Env is the whole environment.
	Env []string `json:"env"`
	// Probe checks whether the component is ready.
	Probe Probe `json:"probe"`
	// Address is the host:port at which the component listens.
	Address string `json:"address"`
	// Stage determines when it is stopped.
	Stage Stage `json:"stage"`
}

// wdsFlags returns the flags with which a server runs as that of a WDS.
func (f *Fleet) wdsFlags(program string) []string {
	switch {
	case program == programAPIServer && f.state.CallServers:
		return []string{"--wds", "--call-servers"}
	case program == programAPIServer, program == programControllerManager:
		return []string{"--wds"}
	}
	return nil
}

// component returns the component that runs a program for a space. The space is "" for etcd.
func (f *Fleet) component(space, name string, args ...string) *Component {
	program := programs[name]
	c := &Component{
		Name: componentName(space, name), Path: filepath.Join(f.cfg.BinDir, name), Args: args,
		Env: f.baseEnv(program.gogc, program.memory), Stage: program.stage,
	}
	c.Address = f.state.address(c.Name)
	if program.subcommand {
		head := []string{name, "--dir", f.layout.Dir}
		if space != "" {
			head = append(head, "--space", space)
		}
		if slices.Contains(f.state.WDS, space) {
			head = append(head, f.wdsFlags(name)...)
		}
		c.Path, c.Args = f.cfg.Executable, slices.Concat(head, []string{"--"}, args)
	}
	if program.ready == "" {
		c.Probe.TCP = c.Address
		return c
	}
	c.Probe.URL = fmt.Sprintf(program.ready, c.Address)
	pki := f.pki(space)
	if strings.HasPrefix(program.ready, "https:") {
		c.Probe.CA = pki.crt("ca")
	}
	if program.prober != "" {
		c.Probe.Cert, c.Probe.Key = pki.crt(program.prober), pki.key(program.prober)
	}
	return c
}

// Space returns the name of the component's space, or "" if the component serves all spaces.
func (c *Component) Space() string { return spaceOf(c.Name) }

// Program returns the name of the program that the component runs.
func (c *Component) Program() string { return programOf(c.Name) }

// componentName returns the name of the component that runs a program for a space.
func componentName(space, program string) string { return path.Join(space, program) }

func spaceOf(component string) string {
	space, _ := path.Split(component)
	return strings.TrimSuffix(space, "/")
}

func programOf(component string) string { return path.Base(component) }
