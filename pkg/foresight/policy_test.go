package foresight

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// TestUnlisted: what a policy selects and no Binding lists is found, with lists that are no longer
// than necessary.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	object := func(version, kind, namespace, name string, of map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: of},
		}
	}
	web := map[string]string{"app": "web"}
	deleting := object("v1", "ConfigMap", "shop", "deleting", web)
	at := metav1.Now()
	deleting.DeletionTimestamp = &at
	exist := []runtime.Object{
		object("v1", "Namespace", "", "shop", map[string]string{"team": "a"}),
		object("v1", "Namespace", "", "other", nil),
		object("v1", "ConfigMap", "shop", "listed", web),
		object("v1", "ConfigMap", "shop", "new", web),
		object("v1", "ConfigMap", "shop", "unlabelled", nil),
		object("v1", "ConfigMap", "shop", "kube-root-ca.crt", web),
		object("v1", "ConfigMap", "other", "new", web),
		object("v1", "ConfigMap", "kube-system", "new", web),
		object("apps/v1", "Deployment", "shop", "new", web),
		deleting,
	}
	resources := []match.Resource{
		{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap"},
		{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Kind: "Deployment"},
	}
	configMap := func(namespace, name string) string {
		return objref.Ref{Resource: "configmaps", Namespace: namespace, Name: name}.String()
	}
	deployment := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "new"}.String()
	selector := []metav1.LabelSelector{{MatchLabels: web}}
	for name, tc := range map[string]struct {
		clauses []controlv1alpha1.DownsyncObjectTest
		want    []string
		lists   []string
		fails   bool
	}{
		"by label": {
			clauses: []controlv1alpha1.DownsyncObjectTest{{ObjectSelectors: selector}},
			want:    []string{configMap("other", "new"), configMap("shop", "new"), deployment},
			lists:   []string{"configmaps app=web", "deployments app=web"},
		},
		"by resource and namespace": {
			clauses: []controlv1alpha1.DownsyncObjectTest{{Resources: []string{"configmaps"}, Namespaces: []string{"shop"}}, {Resources: []string{"configmaps"}, ObjectSelectors: selector}},
			want:    []string{configMap("other", "new"), configMap("shop", "new"), configMap("shop", "unlabelled")},
			lists:   []string{"configmaps "},
		},
		"by labels of the Namespace": {
			clauses: []controlv1alpha1.DownsyncObjectTest{{NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"team": "a"}}}, ObjectSelectors: selector}},
			want:    []string{configMap("shop", "new"), deployment},
			lists:   []string{"configmaps app=web", "deployments app=web", "namespaces "},
		},
		"by any label": {
			clauses: []controlv1alpha1.DownsyncObjectTest{{Resources: []string{"deployments"}, ObjectSelectors: []metav1.LabelSelector{{}}}},
			want:    []string{deployment},
			lists:   []string{"deployments "},
		},
		"unread": {
			clauses: []controlv1alpha1.DownsyncObjectTest{{Resources: []string{"configmaps"}}},
			lists:   []string{"configmaps "},
			fails:   true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := fake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			client := fake.NewSimpleMetadataClient(scheme, exist...)
			if tc.fails {
				client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("etcd is away") })
			}
			spec := &controlv1alpha1.BindingPolicySpec{}
			for _, clause := range tc.clauses {
				spec.Downsync = append(spec.Downsync, controlv1alpha1.DownsyncPolicyClause{DownsyncObjectTest: clause})
			}
			compiled, invalid := match.Compile(spec)
			if len(invalid) > 0 {
				t.Fatal(invalid)
			}
			of := slices.DeleteFunc(slices.Clone(resources), func(in match.Resource) bool { return !compiled.Reaches(in.GroupResource()) })
			r := &Reader{metadata: client}
			got := r.unlistedOf(t.Context(), spec, compiled, of, map[objref.Ref]string{{Resource: "configmaps", Namespace: "shop", Name: "listed"}: "v1"}, false)
			if strings.Contains(got.Unread, "etcd is away") != tc.fails || (got.Unread != "") != tc.fails {
				t.Errorf("unread: %q", got.Unread)
			}
			var names, lists []string
			for _, ref := range got.Value {
				names = append(names, ref.String())
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, action := range client.Actions() {
				if list, is := action.(clienttesting.ListAction); is {
					lists = append(lists, list.GetResource().Resource+" "+list.GetListRestrictions().Labels.String())
				}
			}
			slices.Sort(lists)
			if diff := cmp.Diff(tc.lists, lists); diff != "" {
				t.Errorf("lists (-want +got):\n%s", diff)
			}
		})
	}
}
