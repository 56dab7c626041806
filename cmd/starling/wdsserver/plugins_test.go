package wdsserver

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// stayingPlugins are those that are on in a WDS.
var stayingPlugins = []string{
	"CertificateApproval",
	"CertificateSigning",
	"CertificateSubjectRestriction",
	"ClusterTrustBundleAttest",
	"MutatingAdmissionPolicy", // the API is off
	"NamespaceLifecycle",
	"StorageObjectInUseProtection",
	"ValidatingAdmissionPolicy",
}

// TestPlugins: a plugin that a new version of Kubernetes turns on is in one of the lists.
func TestPlugins(t *testing.T) {
	admission := options.NewServerRunOptions().Admission.GenericAdmission
	on := slices.DeleteFunc(slices.Clone(admission.RecommendedPluginOrder), admission.DefaultOffPlugins.Has)
	slices.Sort(on)
	want := slices.Sorted(slices.Values(slices.Concat(actingPlugins, callingPlugins, stayingPlugins)))
	if diff := cmp.Diff(want, on); diff != "" {
		t.Errorf("plugins that are on by default (-listed +found):\n%s", diff)
	}
}

func TestDisabled(t *testing.T) {
	for name, tc := range map[string]struct {
		o       Options
		on, off []string
		want    []string
	}{
		"Default":     {want: slices.Concat(actingPlugins, callingPlugins)},
		"CallServers": {o: Options{CallServers: true}, want: actingPlugins},
		"Flags": {
			on: []string{"PodSecurity"}, off: []string{"NamespaceLifecycle"},
			want: append(slices.DeleteFunc(slices.Concat(actingPlugins, callingPlugins), func(name string) bool { return name == "PodSecurity" }), "NamespaceLifecycle"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(sets.List(sets.New(tc.want...)), disabled(tc.o, tc.on, tc.off)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
