package installation

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/starlinghq/starling/pkg/hostedspace"
	"github.com/starlinghq/starling/pkg/install/packages"
)

// oldest is the oldest version of Kubernetes that a space may have: CustomResourceDefinitions of
// packages have selectable fields.
const oldest = "1.32"

// observed is what is known of a space before it is changed.
type observed struct {
	// Version is Kubernetes' version, as the API server reports it. Release is its first two
	// numbers, which builds have that do not know their full version. It may be empty.
	Version, Release string
	// User is who the API server says that we are, and Administrator whether this user may do
	// everything. If not, the fields below are not observed.
	User          string
	Administrator bool
	Record        hostedspace.Record
	// Chart is the name of the chart that is installed, or "".
	Chart string
	// Hub is true if the space serves ManagedClusters, Operator if OCM's operator has installed a
	// hub there.
	Hub, Operator bool
	// AddressTaken is true if the space publishes an address that Starling has not written.
	AddressTaken bool
	// PackagesTaken is what else than Starling serves packages, or "".
	PackagesTaken string
}

// RefusedError means that a space was not changed, because it is not what was asked for.
type RefusedError struct {
	Space    string
	Problems []string
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("install space %q: nothing was changed: %s", e.Space, strings.Join(e.Problems, "; "))
}

// check returns a RefusedError with everything that speaks against the request.
func check(r *Request, o *observed) error {
	var problems []string
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if v, err := version.ParseGeneric(cmp.Or(o.Release, o.Version)); err != nil {
		refuse("the version %q of its API server is unknown: Kubernetes %s or newer is required", o.Version, oldest)
	} else if v.LessThan(version.MustParseGeneric(oldest)) {
		refuse("its API server has version %s: Kubernetes %s or newer is required", o.Version, oldest)
	}
	if !o.Administrator {
		refuse("user %q may not do everything in it (verb * on resources *): use the kubeconfig of a user with ClusterRole cluster-admin", o.User)
	}
	if t := o.Record.Type; t != "" && t != string(r.Type) {
		refuse("it is a space of type %s, not %s: one space cannot be both. Use another API server, or --type %s", t, r.Type, t)
	} else if other := otherChart(r.Type); o.Chart == other {
		refuse("the chart %q is installed in it: one space cannot be both a WDS and an ITS. Use another API server", other)
	}
	if n := o.Record.Name; n != "" && n != r.Name {
		refuse("its name is %q: use --name %s, or the kubeconfig of space %q", n, n, r.Name)
	}
	if o.Administrator && r.Type == ITS {
		switch {
		case r.Webhooks == nil && !o.Hub:
			refuse("OCM's hub is not installed in it: set --webhook-url to install it, or install it with clusteradm first")
		case r.Webhooks != nil && o.Operator:
			refuse("OCM's operator has installed a hub in it and would change it back: leave out --webhook-url")
		}
	}
	if r.Address != nil && o.AddressTaken {
		refuse("its ConfigMap %s/%s was not written by Starling, but by kubeadm for example, and is not overwritten: leave out --server",
			metav1.NamespacePublic, clusterInfo)
	}
	if r.Packages != nil && o.PackagesTaken != "" {
		refuse("%s serves packages in it already, and is not replaced: remove APIService %s, or leave out --package-server",
			o.PackagesTaken, packages.APIService)
	}
	if len(problems) == 0 {
		return nil
	}
	return &RefusedError{Space: r.Name, Problems: problems}
}

// otherChart returns the name of the chart of the other type.
func otherChart(t Type) string {
	if t == WDS {
		return "starling-its"
	}
	return "starling-wds"
}
