package main

import (
	"io/fs"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ocmfeature "open-cluster-management.io/api/feature"
	"open-cluster-management.io/ocm/manifests"
	"open-cluster-management.io/ocm/pkg/cmd/hub"
	"open-cluster-management.io/ocm/pkg/cmd/spoke"
	"open-cluster-management.io/ocm/pkg/features"
)

// ocmComponents returns the commands that run the components of OCM.
func ocmComponents() []*cobra.Command {
	return []*cobra.Command{
		newComponentCommand("ocm-registration", withHubFeatures(hub.NewRegistrationController)),
		newComponentCommand("ocm-addon-manager", withHubFeatures(hub.NewAddonManager)),
		newComponentCommand("ocm-webhook", withHubFeatures(newWebhookCommand)),
		newComponentCommand("klusterlet", spoke.NewKlusterletAgentCmd),
	}
}

// withHubFeatures registers the feature gates of OCM's hub with their defaults, as OCM's own main
// functions do. OCM panics when it reads a feature gate that is not registered.
func withHubFeatures(build func() *cobra.Command) func() *cobra.Command {
	return func() *cobra.Command {
		utilruntime.Must(features.HubMutableFeatureGate.Add(ocmfeature.DefaultHubRegistrationFeatureGates))
		utilruntime.Must(features.HubMutableFeatureGate.Add(ocmfeature.DefaultHubWorkFeatureGates))
		return build()
	}
}

// ocmManifests returns OCM's manifests in one file system.
func ocmManifests() fs.FS {
	return overlay{manifests.ClusterManagerManifestFiles, manifests.KlusterletManifestFiles}
}

// overlay opens a file in the first of several file systems that has it.
type overlay []fs.FS

// Open implements fs.FS.
func (o overlay) Open(name string) (fs.File, error) {
	var file fs.File
	err := fs.ErrNotExist
	for _, from := range o {
		if file, err = from.Open(name); err == nil {
			return file, nil
		}
	}
	return nil, err
}
