package access

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Options are the flags that name the kubeconfig of the administrator of a space. Without any, it
// is the ServiceAccount of the pod.
type Options struct {
	// HostKubeconfig is the path of the kubeconfig of the hosting cluster, which has the Secret and
	// the ControlPlane. If empty, the ServiceAccount of the pod is used.
	HostKubeconfig string

	kubeconfig   string
	secret, key  string
	controlPlane string
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Path of the kubeconfig of an administrator of the space. "+
		"If it and the next three are empty, the ServiceAccount of the pod is used.")
	flags.StringVar(&o.secret, "kubeconfig-secret", "", "NAMESPACE/NAME of a Secret of the hosting cluster with the kubeconfig of an administrator of the space.")
	flags.StringVar(&o.key, "kubeconfig-key", "", `Key in the Secret. If empty, it is "kubeconfig".`)
	flags.StringVar(&o.controlPlane, "control-plane", "", "Name of a ControlPlane of KubeFlex in the hosting cluster that is the space.")
	flags.StringVar(&o.HostKubeconfig, "host-kubeconfig", "", "Path of the kubeconfig of the hosting cluster. If empty, the ServiceAccount of the pod is used.")
}

// Validate returns an error that names the flag with a mistake.
func (o *Options) Validate() error {
	var set []string
	for name, value := range map[string]string{"--kubeconfig": o.kubeconfig, "--kubeconfig-secret": o.secret, "--control-plane": o.controlPlane} {
		if value != "" {
			set = append(set, name)
		}
	}
	if len(set) > 1 {
		return errors.New("only one of --kubeconfig, --kubeconfig-secret and --control-plane may be set")
	}
	if o.key != "" && o.secret == "" {
		return errors.New("--kubeconfig-key requires --kubeconfig-secret")
	}
	if o.secret != "" {
		namespace, name, _ := strings.Cut(o.secret, "/")
		if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return fmt.Errorf("invalid --kubeconfig-secret %q: must be NAMESPACE/NAME", o.secret)
		}
	}
	if o.controlPlane != "" && len(validation.IsDNS1123Subdomain(o.controlPlane)) > 0 {
		return fmt.Errorf("invalid --control-plane %q: %s", o.controlPlane, validation.IsDNS1123Subdomain(o.controlPlane)[0])
	}
	return nil
}
