package install

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

const (
	pollInterval = 50 * time.Millisecond
	// lateAfter is how often discovery shows nothing new before the conditions are read too.
	lateAfter = 20
	// lateInterval is how many polls later they are read again.
	lateInterval = 10
)

// established blocks until the API server serves these CustomResourceDefinitions. What it serves is
// in one document for each API version, however many they are. Those that this does not show are
// read when nothing happens for some time: other versions of a group may be served by somebody
// else, and a definition may have no version that is served. An API server needs minutes for
// hundreds of definitions, so the patience is that without progress.
func (i *Installer) established(ctx context.Context, crds []*unstructured.Unstructured) error {
	left := map[string]map[string]bool{} // API versions in which one is not served yet, by name
	for _, crd := range crds {
		left[crd.GetName()] = servedVersions(crd)
	}
	why := map[string]string{}
	for still := 0; ; still++ { // still is the number of polls since the last progress
		before := count(left)
		if err := i.dropServed(ctx, left); err != nil {
			return err
		}
		if count(left) < before {
			still = 0
		}
		late := still >= lateAfter && (still-lateAfter)%lateInterval == 0
		if over := still >= int(i.Patience/pollInterval); late || over {
			if err := i.dropEstablished(ctx, left, why); err != nil {
				return err
			}
			if over && len(left) > 0 {
				name := slices.Min(slices.Collect(maps.Keys(left)))
				return &transaction.FailedError{
					Reason: pkgv1alpha1.ReasonCRDInstallationFailed, Message: "Failed to install CRD " + name + ": it is not established: " + why[name],
				}
			}
		}
		if len(left) == 0 {
			return nil
		}
		// It ends with the context only.
		if err := wait.PollUntilContextCancel(ctx, pollInterval, false, func(context.Context) (bool, error) { return true, nil }); err != nil {
			return err
		}
	}
}

// count returns the number of API versions in which definitions are not served yet.
func count(left map[string]map[string]bool) (sum int) {
	for _, versions := range left {
		sum += len(versions)
	}
	return sum
}

// servedVersions returns the API versions in which a CustomResourceDefinition is to be served.
func servedVersions(crd *unstructured.Unstructured) map[string]bool {
	found := map[string]bool{}
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if served, _ := version["served"].(bool); served {
			found[group+"/"+fmt.Sprint(version["name"])] = true
		}
	}
	return found
}

// dropServed removes what is served. One without API versions stays.
func (i *Installer) dropServed(ctx context.Context, left map[string]map[string]bool) error {
	asked := map[string]bool{}
	for _, versions := range left {
		maps.Copy(asked, versions)
	}
	for version := range asked {
		if err := ctx.Err(); err != nil {
			return err
		}
		list, err := i.Discovery.ServerResourcesForGroupVersion(version)
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("discover %s: %w", version, err)
		}
		group, _, _ := strings.Cut(version, "/")
		for n := range list.APIResources {
			name := list.APIResources[n].Name + "." + group
			if versions, waits := left[name]; waits && versions[version] {
				delete(versions, version)
				if len(versions) == 0 {
					delete(left, name)
				}
			}
		}
	}
	return nil
}

// dropEstablished removes those whose conditions say that they are established. why says of each
// other one what keeps it.
func (i *Installer) dropEstablished(ctx context.Context, left map[string]map[string]bool, why map[string]string) error {
	for _, name := range slices.Collect(maps.Keys(left)) {
		now, err := i.live(ctx, definitions, name)
		if err != nil {
			return err
		}
		var established bool
		if established, why[name] = isEstablished(now); established {
			delete(left, name)
		}
	}
	return nil
}

// isEstablished reports whether a CustomResourceDefinition is established, and if not, why.
func isEstablished(crd *unstructured.Unstructured) (established bool, why string) {
	if crd == nil {
		return false, "it was deleted"
	}
	why = "it has no status"
	found, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, item := range found {
		condition, _ := item.(map[string]any)
		switch {
		case condition["type"] == "NamesAccepted" && condition["status"] == "False":
			why = fmt.Sprint(condition["message"])
		case condition["type"] == "Established" && condition["status"] == "True":
			established = true
		}
	}
	return established, why
}
