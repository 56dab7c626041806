package space

import (
	"fmt"
	"slices"
	"strings"
)

// baseEnv is the environment of every component: nothing of the user's but what a program needs to
// run. The Go runtime is tuned for many processes on one small machine, unless the fleet is to hold much.
func (f *Fleet) baseEnv(gogc int, limit string) []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"HOME=" + f.layout.Dir,
		"TMPDIR=/tmp",
	}
	if f.state.Large {
		return env
	}
	return append(env, fmt.Sprintf("GOGC=%d", gogc), "GOMEMLIMIT="+limit)
}

// self describes a component that runs a hidden subcommand of the starling binary.
func (f *Fleet) self(space, program string, args ...string) Component {
	name := componentName(space, program)
	head := []string{program, "--dir", f.layout.Dir}
	if space != "" {
		head = append(head, "--space", space)
	}
	return Component{
		Name: name, Path: f.cfg.Executable, Args: append(append(head, "--"), args...),
		Env: f.baseEnv(80, "400MiB"),
	}
}

// etcd describes the one etcd of the fleet. Each space has a key prefix in it.
func (f *Fleet) etcd() (Component, error) {
	address, err := f.state.address(programEtcd)
	if err != nil {
		return Component{}, err
	}
	p := pkiDir{dir: f.layout.EtcdPKI()}
	args := []string{
		"--data-dir", f.layout.EtcdData(), "--listen", address,
		"--cert", p.crt("server"), "--key", p.key("server"), "--client-ca", p.crt("ca"),
	}
	if f.state.Ephemeral {
		args = append(args, "--no-fsync")
	}
	c := f.self("", programEtcd, args...)
	c.Address = address
	c.Stage = StageStorage
	c.Probe = Probe{URL: "https://" + address + "/readyz", CA: p.crt("ca"), Cert: p.crt("probe"), Key: p.key("probe")}
	return c, nil
}

// apiServer describes the kube-apiserver of a space.
func (f *Fleet) apiServer(space string) (Component, error) {
	port, err := f.state.port(componentName(space, programAPIServer))
	if err != nil {
		return Component{}, err
	}
	etcd, err := f.state.address(programEtcd)
	if err != nil {
		return Component{}, err
	}
	p, ep := f.pki(space), pkiDir{dir: f.layout.EtcdPKI()}
	c := f.self(space, programAPIServer,
		"--etcd-servers=https://"+etcd,
		"--etcd-prefix=/"+space,
		"--etcd-cafile="+ep.crt("ca"),
		"--etcd-certfile="+ep.crt("client-"+space),
		"--etcd-keyfile="+ep.key("client-"+space),
		"--bind-address="+loopback,
		"--advertise-address="+loopback,
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file="+p.crt(programAPIServer),
		"--tls-private-key-file="+p.key(programAPIServer),
		"--client-ca-file="+p.crt("ca"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+p.key("service-account"),
		"--service-account-signing-key-file="+p.key("service-account"),
		"--requestheader-client-ca-file="+p.crt("front-proxy-ca"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+p.crt("front-proxy-client"),
		"--proxy-client-key-file="+p.key("front-proxy-client"),
		"--service-cluster-ip-range=10.0.0.0/16",
		// No address of this machine is one that a workload could reach the API server at.
		"--endpoint-reconciler-type=none",
		"--enable-priority-and-fairness=true",
		"--profiling=false",
		"--shutdown-delay-duration=0s",
		"--shutdown-watch-termination-grace-period=0s",
		"--v=1",
	)
	c.Address = fmt.Sprintf("%s:%d", loopback, port)
	c.Stage = StageAPIServer
	c.Env = f.baseEnv(100, "600MiB")
	c.Probe = Probe{URL: "https://" + c.Address + "/readyz", CA: p.crt("ca"), Cert: p.crt("admin"), Key: p.key("admin")}
	return c, nil
}

// apiControllers are the controllers that concern API machinery, which every space has.
var apiControllers = []string{
	"namespace-controller",
	"garbage-collector-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"root-ca-certificate-publisher-controller",
	"clusterrole-aggregation-controller",
	"resourcequota-controller",
	"certificatesigningrequest-signing-controller",
	"certificatesigningrequest-cleaner-controller",
	"validatingadmissionpolicy-status-controller",
	// Admission puts finalizers on claims and volumes; nobody else takes them off.
	"persistentvolumeclaim-protection-controller",
	"persistentvolume-protection-controller",
}

// workloadControllers run in WECs besides.
var workloadControllers = []string{
	"deployment-controller",
	"replicaset-controller",
	"statefulset-controller",
	"daemonset-controller",
	"job-controller",
	"cronjob-controller",
	"ttl-after-finished-controller",
	"replicationcontroller-controller",
	"endpoints-controller",
	"endpointslice-controller",
	"endpointslice-mirroring-controller",
	"disruption-controller",
	"pod-garbage-collector-controller",
}

// nodeControllers run in WECs with nodes besides.
var nodeControllers = []string{
	"node-lifecycle-controller",
	"taint-eviction-controller",
}

// controllerManager describes the kube-controller-manager of a space.
func (f *Fleet) controllerManager(space string) (Component, error) {
	address, err := f.state.address(componentName(space, programControllerManager))
	if err != nil {
		return Component{}, err
	}
	controllers := apiControllers
	if f.state.WEC(space) != nil {
		controllers = slices.Concat(controllers, workloadControllers)
		if f.state.Nodes {
			controllers = slices.Concat(controllers, nodeControllers)
		}
	}
	p := f.pki(space)
	c := f.self(space, programControllerManager,
		"--kubeconfig="+f.layout.ComponentKubeconfig(space, programControllerManager),
		"--controllers="+strings.Join(controllers, ","),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+p.key("service-account"),
		"--root-ca-file="+p.crt("ca"),
		"--cluster-signing-cert-file="+p.crt("ca"),
		"--cluster-signing-key-file="+p.key("ca"),
		"--leader-elect=false",
		"--bind-address="+loopback,
		"--secure-port="+portOf(address),
		"--tls-cert-file="+p.crt("component"),
		"--tls-private-key-file="+p.key("component"),
		"--kube-api-qps=200",
		"--kube-api-burst=400",
		"--profiling=false",
		"--v=1",
	)
	c.Address = address
	c.Env = f.baseEnv(80, "250MiB")
	c.Probe = Probe{URL: "https://" + address + "/healthz", CA: p.crt("ca")}
	return c, nil
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// writeKubernetesKubeconfigs writes the kubeconfigs of Kubernetes' own components of a space.
func (f *Fleet) writeKubernetesKubeconfigs(space string) error {
	p := f.pki(space)
	programs := []string{programControllerManager}
	if f.state.Nodes && f.state.WEC(space) != nil {
		programs = append(programs, programScheduler)
	}
	for _, program := range programs {
		err := f.writeComponentKubeconfig(space, program, credentials{certFile: p.crt(program), keyFile: p.key(program)})
		if err != nil {
			return err
		}
	}
	return nil
}

// ensureFiles makes the certificates and kubeconfigs of all spaces.
func (f *Fleet) ensureFiles() error {
	spaces := f.state.Spaces()
	for _, name := range f.wanted() {
		if _, err := f.state.port(name); err != nil {
			return err
		}
	}
	if err := f.ensureEtcdPKI(spaces); err != nil {
		return fmt.Errorf("make the certificates of etcd: %w", err)
	}
	for _, s := range spaces {
		if err := f.ensureSpacePKI(s); err != nil {
			return fmt.Errorf("make the certificates of %s: %w", s, err)
		}
		if err := f.writeKubernetesKubeconfigs(s); err != nil {
			return err
		}
	}
	return f.writeKubeconfig()
}
