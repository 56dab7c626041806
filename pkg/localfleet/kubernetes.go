package localfleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// baseEnv returns the environment of a component. It includes nothing of the user's environment.
// Unless the fleet is large, it limits the memory of the Go runtime: many processes share one small
// machine.
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

// etcd returns the component that runs the only etcd of the fleet. Each space has a key prefix in
// it.
func (f *Fleet) etcd() *Component {
	p := f.pki("")
	args := []string{
		"--data-dir", f.layout.EtcdData(), "--listen", f.state.address(programEtcd),
		"--cert", p.crt("server"), "--key", p.key("server"), "--client-ca", p.crt("ca"),
	}
	if f.state.Ephemeral {
		args = append(args, "--no-fsync")
	}
	return f.component("", programEtcd, args...)
}

// servingFlags returns the flags of Kubernetes' servers for the address at which a component
// serves, and for its certificate of that name.
func (f *Fleet) servingFlags(space, program, certificate string) []string {
	p := f.pki(space)
	return []string{
		"--bind-address=" + loopback,
		fmt.Sprintf("--secure-port=%d", f.state.Ports[componentName(space, program)]),
		"--tls-cert-file=" + p.crt(certificate),
		"--tls-private-key-file=" + p.key(certificate),
	}
}

// apiServer returns the component that runs the kube-apiserver of a space.
func (f *Fleet) apiServer(space string) *Component {
	p, etcd := f.pki(space), f.pki("")
	return f.component(space, programAPIServer, append(slices.Concat(f.servingFlags(space, programAPIServer, programAPIServer), f.auditFlags(space)),
		"--etcd-servers=https://"+f.state.address(programEtcd),
		"--etcd-prefix=/"+space,
		"--etcd-cafile="+etcd.crt("ca"),
		"--etcd-certfile="+etcd.crt("client-"+space),
		"--etcd-keyfile="+etcd.key("client-"+space),
		"--advertise-address="+loopback,
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
		// Workloads cannot connect to the API server at any address of this machine.
		"--endpoint-reconciler-type=none",
		"--enable-priority-and-fairness=true",
		"--profiling=false",
		"--shutdown-delay-duration=0s",
		"--shutdown-watch-termination-grace-period=0s",
		"--v=1",
	)...)
}

// apiControllers are the controllers of API machinery. They run in every ITS and WEC. Those of a
// WDS are in package cmd/starling/wdsserver.
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
	// Admission adds finalizers to claims and volumes. Only these controllers remove them.
	"persistentvolumeclaim-protection-controller",
	"persistentvolume-protection-controller",
}

// workloadControllers run in WECs too.
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

// nodeControllers run in WECs that have nodes too.
var nodeControllers = []string{
	"node-lifecycle-controller",
	"taint-eviction-controller",
}

// controllers returns the controllers of kube-controller-manager in an ITS or a WEC.
func (f *Fleet) controllers(space string) []string {
	switch {
	case f.state.WEC(space) == nil:
		return apiControllers
	case f.state.Nodes:
		return slices.Concat(apiControllers, workloadControllers, nodeControllers)
	}
	return slices.Concat(apiControllers, workloadControllers)
}

// controllerManager returns the component that runs the kube-controller-manager of a space.
func (f *Fleet) controllerManager(space string) *Component {
	flags := f.servingFlags(space, programControllerManager, "component")
	if !slices.Contains(f.state.WDS, space) {
		flags = append(flags, "--controllers="+strings.Join(f.controllers(space), ","))
	}
	p := f.pki(space)
	return f.component(space, programControllerManager, append(flags,
		"--kubeconfig="+f.layout.ComponentKubeconfig(space, programControllerManager),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+p.key("service-account"),
		"--root-ca-file="+p.crt("ca"),
		"--cluster-signing-cert-file="+p.crt("ca"),
		"--cluster-signing-key-file="+p.key("ca"),
		"--leader-elect=false",
		"--kube-api-qps=200",
		"--kube-api-burst=400",
		"--profiling=false",
		"--v=1",
	)...)
}

// ensureFiles saves the state with the ports of all components, and then creates or renews the
// certificates and kubeconfigs of all spaces.
func (f *Fleet) ensureFiles(ctx context.Context) error {
	spaces := f.state.Spaces()
	if err := f.reservePorts(ctx); err != nil {
		return err
	}
	if f.state.Audit {
		if err := writeFile(f.layout.AuditPolicy(), []byte(auditPolicy)); err != nil {
			return fmt.Errorf("write the policy of audit logs: %w", err)
		}
	}
	if err := f.ensureEtcdPKI(spaces); err != nil {
		return fmt.Errorf("create the certificates of etcd: %w", err)
	}
	for _, s := range spaces {
		if err := f.ensureSpacePKI(s); err != nil {
			return fmt.Errorf("create the certificates of space %q: %w", s, err)
		}
		// The scheduler runs only where there are nodes.
		for _, program := range []string{programControllerManager, programScheduler} {
			if err := f.writeKubeconfig(s, s, program, f.certificate(s, program)); err != nil {
				return err
			}
		}
	}
	return f.writeUserKubeconfig()
}
