package binding

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/starlinghq/starling/test/testenv"
)

// authors have the right to write policies, and these to read objects.
const authors = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: author}
rules:
- {apiGroups: [control.kubestellar.io], resources: [bindingpolicies, bindings], verbs: [get, create, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: authors}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: author}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: authors}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: ["", apps], resources: [configmaps, deployments], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: operator}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: apps}
rules:
- {apiGroups: [apps], resources: ["*"], verbs: [get]}
- {apiGroups: [""], resources: [secrets], resourceNames: [mine], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ann, namespace: $NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ben}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: apps}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ben}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: cleo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: operator}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: cleo}]`

// TestAuthorsSelectWhatTheyMayRead: nobody delivers through a policy or a Binding what they may not
// read. ann may read ConfigMaps and Deployments in one namespace, ben everything of API group apps
// and one Secret, cleo everything, and dan nothing.
func TestAuthorsSelectWhatTheyMayRead(t *testing.T) {
	e := newEnvironment(t)
	space := e.fleet.Space(t, "wds1")
	space.Apply(t, strings.ReplaceAll(authors, "$NAME", e.name))
	testenv.Allowed(t, space.Config, true, "ann", authorizationv1.ResourceAttributes{Verb: "get", Resource: "configmaps", Namespace: e.name})
	testenv.Allowed(t, space.Config, true, "ben", authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: "x", Name: "mine"})
	testenv.Allowed(t, space.Config, true, "cleo", authorizationv1.ResourceAttributes{Verb: "get", Group: "*", Resource: "*"})
	as := func(user string) dynamic.Interface {
		client, err := dynamic.NewForConfig(space.As(user, "authors"))
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	clients := map[string]dynamic.Interface{}
	for _, user := range []string{"ann", "ben", "cleo", "dan"} {
		clients[user] = as(user)
	}
	write := func(user string, resource schema.GroupVersionResource, kind, spec string) error {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		if err := json.Unmarshal([]byte(spec), &o.Object); err != nil {
			t.Fatal(err)
		}
		o.Object = map[string]any{"spec": o.Object}
		o.SetAPIVersion(resource.GroupVersion().String())
		o.SetKind(kind)
		o.SetName(e.name + "-" + user)
		_, err := clients[user].Resource(resource).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	// The admission policy acts a moment after it was installed.
	testenv.Eventually(t, patience, func() (bool, string) {
		err := write("dan", policies, "BindingPolicy", `{"downsync":[{"objectNames":["*"]}]}`)
		return apierrors.IsForbidden(err), fmt.Sprint("dan writes a policy: ", err)
	})

	here := `"namespaces":["` + e.name + `"]`
	names := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"c%d"`, i))
		}
		return strings.Join(list, ",")
	}
	const may = ""
	cases := map[string]struct {
		clauses string
		// want has for each user what the refusal says, "" for none; users that are not in it are
		// refused.
		want map[string]string
	}{
		"NoClause":        {``, map[string]string{"ann": may, "ben": may, "cleo": may, "dan": may}},
		"OneNamespace":    {`{"apiGroup":"","resources":["configmaps"],` + here + `}`, map[string]string{"ann": may, "cleo": may, "ben": "configmaps in namespace " + e.name}},
		"TwoClauses":      {`{"apiGroup":"","resources":["configmaps"],` + here + `},{"apiGroup":"apps","resources":["deployments"],` + here + `}`, map[string]string{"ann": may, "cleo": may}},
		"OneTooMany":      {`{"apiGroup":"","resources":["configmaps","secrets"],` + here + `}`, map[string]string{"ann": "secrets in namespace " + e.name, "cleo": may}},
		"OtherNamespace":  {`{"apiGroup":"","resources":["configmaps"],"namespaces":["` + e.name + `","default"]}`, map[string]string{"ann": "configmaps in namespace default", "cleo": may}},
		"AllNamespaces":   {`{"apiGroup":"","resources":["configmaps"]}`, map[string]string{"ann": "configmaps in all namespaces", "cleo": may}},
		"StarNamespace":   {`{"apiGroup":"","resources":["configmaps"],"namespaces":["*"]}`, map[string]string{"cleo": may}},
		"ByLabel":         {`{"apiGroup":"","resources":["configmaps"],"namespaceSelectors":[{"matchLabels":{"kubernetes.io/metadata.name":"` + e.name + `"}}]}`, map[string]string{"cleo": may}},
		"NoResources":     {`{"apiGroup":"",` + here + `}`, map[string]string{"ann": "* in namespace " + e.name, "cleo": may}},
		"NoGroup":         {`{"resources":["configmaps"],` + here + `}`, map[string]string{"ann": "configmaps.* in namespace " + e.name, "cleo": may}},
		"WholeGroup":      {`{"apiGroup":"apps"}`, map[string]string{"ben": may, "cleo": may, "ann": "*.apps in all namespaces"}},
		"Everything":      {`{"objectNames":["*"]}`, map[string]string{"cleo": may, "ben": "*.* in all namespaces"}},
		"Named":           {`{"apiGroup":"","resources":["secrets"],"objectNames":["mine"]}`, map[string]string{"ben": may, "cleo": may}},
		"NamedOther":      {`{"apiGroup":"","resources":["secrets"],"objectNames":["mine","theirs"]}`, map[string]string{"ben": "secrets theirs in all namespaces", "cleo": may}},
		"NotNamed":        {`{"apiGroup":"","resources":["secrets"]}`, map[string]string{"ben": "secrets in all namespaces", "cleo": may}},
		"ManyNames":       {`{"apiGroup":"","resources":["configmaps"],` + here + `,"objectNames":[` + names(500) + `]}`, map[string]string{"ann": may, "cleo": may}},
		"AsManyAsChecked": {`{"apiGroup":"","resources":["configmaps"],` + here + `,"objectNames":[` + names(24) + `]}`, map[string]string{"ann": may, "cleo": may}},
		"ManyNamespaces":  {`{"apiGroup":"apps","resources":["deployments"],"namespaces":[` + names(500) + `]}`, map[string]string{"ben": may, "cleo": may, "ann": "deployments.apps in all namespaces"}},
		"ManyResources":   {`{"apiGroup":"apps","resources":[` + names(100) + `]}`, map[string]string{"cleo": may, "ben": "*.* in all namespaces"}},
		"Separators":      {`{"apiGroup":"","resources":["configmaps"],` + here + `,"objectNames":["a%b","c/d"]}`, map[string]string{"cleo": may}},
	}
	for name, tc := range cases {
		for user := range clients {
			err := write(user, policies, "BindingPolicy", `{"downsync":[`+tc.clauses+`]}`)
			want, said := tc.want[user]
			switch {
			case said && want == may:
				if err != nil {
					t.Errorf("%s: %s is refused: %v", name, user, err)
				}
			case err == nil:
				t.Errorf("%s: %s is not refused", name, user)
			case said && !strings.Contains(err.Error(), user+" may not get "+want) && !strings.Contains(err.Error(), ", or not "+want):
				t.Errorf("%s: %s gets %v, want an error that names %q", name, user, err, want)
			}
		}
	}

	// A user who may not write the policy may not have it deliver to other clusters either, but may
	// label it, and the controller completes it.
	spec := fmt.Sprintf(`{"downsync":[{"apiGroup":"","resources":["secrets"],%s}]}`, here)
	e.start()
	policy := e.policy("p", spec)
	e.eventuallyBound(policy)
	e.eventuallyCondition(policy, synced, "True Synced")
	patch := func(user, patch string) error {
		_, err := clients[user].Resource(policies).Patch(t.Context(), policy, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	if err := patch("ann", `{"spec":{"clusterSelectors":[{}]}}`); !apierrors.IsForbidden(err) {
		t.Errorf("ann sends Secrets to all clusters: %v", err)
	}
	if err := patch("ann", `{"metadata":{"labels":{"team":"a"}}}`); err != nil {
		t.Errorf("ann labels the policy: %v", err)
	}
	if err := patch("cleo", `{"spec":{"clusterSelectors":[{}]}}`); err != nil {
		t.Errorf("cleo changes the policy: %v", err)
	}
	binding := fmt.Sprintf(`{"workload":{"namespaceScope":[{"group":"","version":"v1","resource":"configmaps","namespace":%q,"name":"x","resourceVersion":"1"}]}}`, e.name)
	if err := write("ann", bindings, "Binding", binding); !apierrors.IsForbidden(err) {
		t.Errorf("ann writes a Binding: %v", err)
	}
	if err := write("cleo", bindings, "Binding", binding); err != nil {
		t.Errorf("cleo writes a Binding: %v", err)
	}
}
