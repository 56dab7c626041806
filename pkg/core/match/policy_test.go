package match

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

type (
	policySpec = controlv1alpha1.BindingPolicySpec
	clauseSpec = controlv1alpha1.DownsyncPolicyClause
	objectTest = controlv1alpha1.DownsyncObjectTest
	modulation = controlv1alpha1.DownsyncModulation
)

func selector(pairs ...string) metav1.LabelSelector {
	s := metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		s.MatchLabels[pairs[i]] = pairs[i+1]
	}
	return s
}

func expression(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func downsync(tests ...objectTest) *policySpec {
	spec := &policySpec{}
	for _, test := range tests {
		spec.Downsync = append(spec.Downsync, clauseSpec{DownsyncObjectTest: test})
	}
	return spec
}

func clauseOf(test objectTest, how modulation) clauseSpec {
	return clauseSpec{DownsyncObjectTest: test, DownsyncModulation: how}
}

func mustCompile(t testing.TB, spec *policySpec) *Policy {
	t.Helper()
	p, errs := Compile(spec)
	if len(errs) > 0 {
		t.Fatalf("Compile: %q", errs)
	}
	return p
}

var (
	configMaps   = Resource{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", false}
	deployments  = Resource{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment", true}
	namespaceRes = Resource{schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "Namespace", false}
	clusterRoles = Resource{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, "ClusterRole", false}
)

func TestCompileReportsEveryMistake(t *testing.T) {
	cases := map[string]struct {
		spec policySpec
		want []string
	}{
		"Valid": {spec: policySpec{ClusterSelectors: []metav1.LabelSelector{{}}, Downsync: []clauseSpec{{DownsyncObjectTest: objectTest{ObjectNames: []string{"*"}}}}}},
		"EmptyClause": {
			spec: *downsync(objectTest{ObjectNames: []string{"a"}}, objectTest{}),
			want: []string{`spec.downsync[1]: Required value: a clause must have at least one of apiGroup, resources, namespaces, ` +
				`namespaceSelectors, objectSelectors, objectNames; to select every object say objectNames: ["*"]`},
		},
		"ThreeSelectors": {
			spec: policySpec{
				ClusterSelectors: []metav1.LabelSelector{expression("site", "Near")},
				Downsync: []clauseSpec{{DownsyncObjectTest: objectTest{
					ObjectSelectors:    []metav1.LabelSelector{selector("app", "web"), expression("tier", metav1.LabelSelectorOpIn)},
					NamespaceSelectors: []metav1.LabelSelector{selector("team", "not a value")},
				}}},
			},
			want: []string{
				`spec.clusterSelectors[0].matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`,
				`spec.downsync[0].namespaceSelectors[0].matchLabels: Invalid value: "not a value": a valid label must be an empty ` +
					`string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character ` +
					`(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
				"spec.downsync[0].objectSelectors[1].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			policy, got := Compile(&tc.spec)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if (policy == nil) != (len(got) > 0) {
				t.Errorf("a policy and errors, or neither: %v", policy)
			}
		})
	}
}

func TestClauseSemantics(t *testing.T) {
	group := func(name string) *string { return &name }
	object := func(r Resource, namespace, name string, pairs ...string) metav1.Object {
		return &metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: selector(pairs...).MatchLabels}
	}
	web := object(deployments, "shop", "web", "app", "web", "tier", "front")
	role := object(clusterRoles, "", "reader", "app", "web")
	cases := map[string]struct {
		reason            string
		test              objectTest
		wantWeb, wantRole bool
	}{
		"AnyName":         {"the way to select all", objectTest{ObjectNames: []string{"*"}}, true, true},
		"Group":           {"group by equality", objectTest{APIGroup: group("apps")}, true, false},
		"CoreGroup":       {`"" is the core group, not any`, objectTest{APIGroup: group("")}, false, false},
		"Resource":        {"resource by name", objectTest{Resources: []string{"pods", "deployments"}}, true, false},
		"AnyResource":     {"* among others is any", objectTest{Resources: []string{"pods", "*"}}, true, true},
		"Kind":            {"a kind is no resource", objectTest{Resources: []string{"Deployment"}}, false, false},
		"Name":            {"exact name", objectTest{ObjectNames: []string{"web"}}, true, false},
		"NamePrefix":      {"no prefix match", objectTest{ObjectNames: []string{"we*"}}, false, false},
		"Namespace":       {"a list without * excludes cluster-scoped objects", objectTest{Namespaces: []string{"shop", ""}}, true, false},
		"AnyNamespace":    {"* includes cluster-scoped objects", objectTest{Namespaces: []string{"*"}}, true, true},
		"OtherNamespace":  {"exact namespace", objectTest{Namespaces: []string{"other"}}, false, false},
		"NamespaceLabels": {"labels of the Namespace; cluster-scoped objects fail", objectTest{NamespaceSelectors: []metav1.LabelSelector{selector("team", "a")}}, true, false},
		"NamespaceLabelsAlternative": {
			"selectors are alternatives",
			objectTest{NamespaceSelectors: []metav1.LabelSelector{selector("team", "b"), expression("team", metav1.LabelSelectorOpExists)}},
			true, false,
		},
		"NoNamespaceLabel": {
			"a negative selector passes an unlabelled Namespace, not a cluster-scoped object",
			objectTest{NamespaceSelectors: []metav1.LabelSelector{expression("stage", metav1.LabelSelectorOpDoesNotExist)}},
			true, false,
		},
		"EmptyNamespaceSelector": {
			"an empty selector includes cluster-scoped objects",
			objectTest{NamespaceSelectors: []metav1.LabelSelector{selector("team", "b"), {}}},
			true, true,
		},
		"Labels":        {"all pairs of one selector", objectTest{ObjectSelectors: []metav1.LabelSelector{selector("app", "web", "tier", "front")}}, true, false},
		"LabelsEither":  {"selectors are alternatives", objectTest{ObjectSelectors: []metav1.LabelSelector{selector("app", "x"), selector("app", "web")}}, true, true},
		"NotIn":         {"passes without the label", objectTest{ObjectSelectors: []metav1.LabelSelector{expression("tier", metav1.LabelSelectorOpNotIn, "front")}}, false, true},
		"EmptySelector": {"passes all", objectTest{ObjectSelectors: []metav1.LabelSelector{{}}}, true, true},
		"AllMustPass":   {"tests are ANDed", objectTest{Resources: []string{"deployments"}, ObjectNames: []string{"reader"}}, false, false},
		"AllThatPass":   {"tests are ANDed", objectTest{APIGroup: group("apps"), Resources: []string{"deployments"}, Namespaces: []string{"shop"}, ObjectNames: []string{"web"}}, true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			index := NewIndex(Options{})
			index.SetNamespace("shop", map[string]string{"team": "a"})
			index.SetObject(deployments, web)
			index.SetPolicy("p", mustCompile(t, downsync(tc.test)))
			index.SetObject(clusterRoles, role)
			snapshot, _, _ := index.Snapshot("p", Listed{})
			gotWeb, gotRole := false, false
			for _, m := range snapshot.Matches {
				gotWeb = gotWeb || m.Ref.Name == "web"
				gotRole = gotRole || m.Ref.Name == "reader"
			}
			if gotWeb != tc.wantWeb || gotRole != tc.wantRole {
				t.Errorf("%s: Deployment %t, want %t; ClusterRole %t, want %t", tc.reason, gotWeb, tc.wantWeb, gotRole, tc.wantRole)
			}
		})
	}
}

func TestOverlappingClauses(t *testing.T) {
	spec := &policySpec{Downsync: []clauseSpec{
		clauseOf(objectTest{Resources: []string{"deployments"}}, modulation{CreateOnly: true, StatusCollectors: []string{"z", "a"}}),
		clauseOf(objectTest{ObjectNames: []string{"web"}}, modulation{WantSingletonReportedState: true, StatusCollectors: []string{"b", "a"}}),
		clauseOf(objectTest{ObjectNames: []string{"other"}}, modulation{WantMultiWECReportedState: true}),
	}}
	want := &modulation{CreateOnly: true, WantSingletonReportedState: true, StatusCollectors: []string{"a", "b", "z"}}
	for _, policyFirst := range []bool{true, false} {
		index := NewIndex(Options{})
		if policyFirst {
			index.SetPolicy("p", mustCompile(t, spec))
		}
		index.SetObject(deployments, &metav1.ObjectMeta{Namespace: "shop", Name: "web"})
		if !policyFirst {
			index.SetPolicy("p", mustCompile(t, spec))
		}
		snapshot, _, _ := index.Snapshot("p", Listed{})
		if len(snapshot.Matches) != 1 {
			t.Fatalf("matches: %v", snapshot.Matches)
		}
		if diff := cmp.Diff(want, snapshot.Matches[0].Modulation); diff != "" {
			t.Errorf("policy first %t: modulation (-want +got):\n%s", policyFirst, diff)
		}
	}
}

func TestNeverObject(t *testing.T) {
	resource := func(group, name string) schema.GroupResource {
		return schema.GroupResource{Group: group, Resource: name}
	}
	meta := func(namespace, name string, labels ...string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: selector(labels...).MatchLabels}
	}
	token := meta("shop", "t")
	token.Annotations = map[string]string{"kubernetes.io/service-account.name": "robot"}
	cases := map[string]struct {
		gr   schema.GroupResource
		obj  metav1.Object
		want bool
	}{
		"ConfigMap":          {resource("", "configmaps"), meta("shop", "settings"), false},
		"RootCA":             {resource("", "configmaps"), meta("shop", "kube-root-ca.crt"), true},
		"SecretOfThatName":   {resource("", "secrets"), meta("shop", "kube-root-ca.crt"), false},
		"DefaultAccount":     {resource("", "serviceaccounts"), meta("shop", "default"), true},
		"Account":            {resource("", "serviceaccounts"), meta("shop", "robot"), false},
		"TokenSecret":        {resource("", "secrets"), token, true},
		"KubernetesService":  {resource("", "services"), meta("default", "kubernetes"), true},
		"ServiceElsewhere":   {resource("", "services"), meta("shop", "kubernetes"), false},
		"KubeSystem":         {resource("", "namespaces"), meta("", "kube-system"), true},
		"InKubeSystem":       {resource("apps", "deployments"), meta("kube-system", "dns"), false},
		"Authentication":     {resource("", "configmaps"), meta("kube-system", "extension-apiserver-authentication"), true},
		"ControllerAccount":  {resource("", "serviceaccounts"), meta("kube-system", "job-controller"), true},
		"AccountOfThatName":  {resource("", "serviceaccounts"), meta("shop", "job-controller"), false},
		"BootstrapToken":     {resource("", "secrets"), meta("kube-system", "bootstrap-token-abc"), true},
		"OursInKubeSystem":   {resource("rbac.authorization.k8s.io", "rolebindings"), meta("kube-system", "x", "app.kubernetes.io/part-of", "starling"), true},
		"NodeLeases":         {resource("", "configmaps"), meta("kube-node-lease", "x"), true},
		"InOurs":             {resource("", "configmaps"), meta("starling-system", "x"), true},
		"Default":            {resource("", "namespaces"), meta("", "default"), false},
		"Event":              {resource("", "events"), meta("shop", "x"), true},
		"Binding":            {resource("control.kubestellar.io", "bindings"), meta("", "x"), true},
		"OurCRD":             {resource("apiextensions.k8s.io", "customresourcedefinitions"), meta("", "bindings.control.kubestellar.io"), true},
		"CRD":                {resource("apiextensions.k8s.io", "customresourcedefinitions"), meta("", "widgets.example.com"), false},
		"OurRole":            {resource("rbac.authorization.k8s.io", "clusterroles"), meta("", "x", "app.kubernetes.io/part-of", "starling"), true},
		"PartOfInNamespace":  {resource("", "configmaps"), meta("shop", "x", "app.kubernetes.io/part-of", "starling"), false},
		"BootstrapRole":      {resource("rbac.authorization.k8s.io", "clusterroles"), meta("", "view", "kubernetes.io/bootstrapping", "rbac-defaults"), true},
		"Role":               {resource("rbac.authorization.k8s.io", "clusterroles"), meta("", "view2"), false},
		"SystemPriority":     {resource("scheduling.k8s.io", "priorityclasses"), meta("", "system-node-critical"), true},
		"Priority":           {resource("scheduling.k8s.io", "priorityclasses"), meta("", "urgent"), false},
		"IPAddress":          {resource("networking.k8s.io", "ipaddresses"), meta("", "10.0.0.1"), true},
		"DefaultServiceCIDR": {resource("networking.k8s.io", "servicecidrs"), meta("", "kubernetes"), true},
	}
	for name, tc := range cases {
		if got := NeverObject(tc.gr, tc.obj) || Generated(tc.gr, tc.obj); got != tc.want {
			t.Errorf("%s: no workload is %t of %s, want %t", name, got, tc.gr, tc.want)
		}
	}
}

// TestIncludeGenerated lifts the rule for what controllers make in each namespace, and no other.
func TestIncludeGenerated(t *testing.T) {
	configMaps := Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap"}
	for _, include := range []bool{false, true} {
		index := NewIndex(Options{IncludeGenerated: include})
		want := 0
		if include {
			want = 1
		}
		index.SetPolicy("p", mustCompile(t, downsync(objectTest{ObjectNames: []string{"*"}})))
		index.SetObject(configMaps, &metav1.ObjectMeta{Namespace: "shop", Name: "kube-root-ca.crt"})
		index.SetObject(configMaps, &metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-root-ca.crt"})
		if snapshot, _, _ := index.Snapshot("p", Listed{}); len(snapshot.Matches) != want {
			t.Errorf("generated objects included: %t: %d are workload, want %d", include, len(snapshot.Matches), want)
		}
	}
}
