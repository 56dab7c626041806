package rights

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const rules = `
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get]}
- {apiGroups: ["*"], resources: ["*/status"], verbs: [patch]}
---
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, namespace: starling-system, name: binding-controller}]
---
kind: Role
metadata: {name: leases, namespace: starling-system}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [a, b], verbs: [update]}
---
kind: RoleBinding
metadata: {name: leases, namespace: starling-system}
roleRef: {kind: Role, name: leases}
subjects: [{kind: ServiceAccount, namespace: starling-system, name: binding-controller}]
---
kind: ClusterRole
metadata: {name: "open-cluster-management:addon-status:agent"}
rules:
- {apiGroups: [control.kubestellar.io], resources: [workstatuses], verbs: [create]}
---
kind: ClusterRole
metadata: {name: "starling:package-author"}
rules:
- {apiGroups: [porch.kpt.dev], resources: [packagerevisions], verbs: [create]}
`

var (
	getAll      = Right{Space: "wds", Identity: "binding-controller", Group: "*", Resource: "*", Verb: "get"}
	patchStatus = Right{Space: "wds", Identity: "binding-controller", Group: "*", Resource: "*/status", Verb: "patch"}
	leaseA      = Right{Space: "wds", Identity: "binding-controller", Namespace: "starling-system", Group: "coordination.k8s.io", Resource: "leases", Name: "a", Verb: "update"}
	leaseB      = Right{Space: "wds", Identity: "binding-controller", Namespace: "starling-system", Group: "coordination.k8s.io", Resource: "leases", Name: "b", Verb: "update"}
	report      = Right{Space: "wds", Identity: "status-agent", Group: "control.kubestellar.io", Resource: "workstatuses", Verb: "create"}
)

func parse(t *testing.T) []Right {
	t.Helper()
	objects, err := decode([]byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	rights, err := granted("wds", objects)
	if err != nil {
		t.Fatal(err)
	}
	return rights
}

func TestGranted(t *testing.T) {
	set := map[Right]bool{}
	for _, r := range parse(t) {
		set[r] = true
	}
	want := map[Right]bool{getAll: true, patchStatus: true, leaseA: true, leaseB: true, report: true}
	if diff := cmp.Diff(want, set); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
	for name, text := range map[string]string{
		"NobodyHasIt": "kind: ClusterRole\nmetadata: {name: forgotten}\n",
		"AUserHasIt":  "kind: ClusterRoleBinding\nmetadata: {name: b}\nroleRef: {kind: ClusterRole, name: r}\nsubjects: [{kind: User, name: ann}]\n",
	} {
		objects, err := decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := granted("wds", objects); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestGrantedNow: config/rbac can be read, and every role there has an owner.
func TestGrantedNow(t *testing.T) {
	rights, err := Granted("../../config/rbac")
	if err != nil {
		t.Fatal(err)
	}
	identities := map[string]bool{}
	for _, r := range rights {
		identities[r.Space+" "+r.Identity] = true
	}
	want := map[string]bool{
		"its binding-controller": true, "its transport-controller": true, "its status-agent-manager": true, "its status-agent": true,
		"wds binding-controller": true, "wds transport-controller": true, "wds package-server": true,
	}
	if diff := cmp.Diff(want, identities); diff != "" {
		t.Errorf("identities (-want +got):\n%s", diff)
	}
}

func TestRead(t *testing.T) {
	const allow = `"annotations":{"authorization.k8s.io/decision":"allow"}`
	const controller = `"user":{"username":"system:serviceaccount:starling-system:binding-controller"}`
	log := strings.Join([]string{
		`{"verb":"get",` + controller + `,"objectRef":{"resource":"pods","namespace":"x","name":"y"},` + allow + `}`,
		`{"verb":"get",` + controller + `,"objectRef":{"resource":"pods","namespace":"z","name":"y"},` + allow + `}`,
		`{"verb":"patch",` + controller + `,"objectRef":{"resource":"deployments","apiGroup":"apps","subresource":"status","namespace":"x","name":"y"},` + allow + `}`,
		`{"verb":"update",` + controller + `,"objectRef":{"resource":"leases","apiGroup":"coordination.k8s.io","namespace":"starling-system","name":"a"},` + allow + `}`,
		`{"verb":"delete",` + controller + `,"objectRef":{"resource":"pods"},"annotations":{"authorization.k8s.io/decision":"forbid"}}`,
		`{"verb":"get",` + controller + `,"annotations":{"authorization.k8s.io/decision":"allow"}}`,
		`{"verb":"delete","user":{"username":"ann"},"objectRef":{"resource":"pods"},` + allow + `}`,
		`{"verb":"cr{"verb":"list"}`,
		`{"verb":"create","user":{"username":"u","groups":["system:open-cluster-management:cluster:c1:addon:addon-status"]},` +
			`"objectRef":{"resource":"workstatuses","apiGroup":"control.kubestellar.io","namespace":"c1"},` + allow + `}`,
		`{"verb":"crea`,
	}, "\n")
	uses := map[Right]bool{}
	if err := Read(strings.NewReader(log), "wds", parse(t), uses); err != nil {
		t.Fatal(err)
	}
	want := map[Right]bool{
		{Space: "wds", Identity: "binding-controller", Resource: "pods", Verb: "get"}:                                true,
		{Space: "wds", Identity: "binding-controller", Group: "apps", Resource: "deployments/status", Verb: "patch"}: true,
		leaseA: true,
		report: true,
	}
	if diff := cmp.Diff(want, uses); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
}

func TestCompare(t *testing.T) {
	pods := Right{Space: "wds", Identity: "binding-controller", Resource: "pods", Verb: "get"}
	status := Right{Space: "wds", Identity: "binding-controller", Group: "apps", Resource: "deployments/status", Verb: "patch"}
	notStatus := Right{Space: "wds", Identity: "binding-controller", Group: "apps", Resource: "deployments", Verb: "patch"}
	otherSpace := Right{Space: "its", Identity: "status-agent", Group: "control.kubestellar.io", Resource: "workstatuses", Verb: "create"}
	all := []Right{pods, status, leaseA, leaseB, report}
	lease := func(name string) Allowed {
		return Allowed{
			Space: "wds", Identity: "binding-controller", Namespace: "starling-system", Group: "coordination.k8s.io",
			Resources: []string{"leases"}, Names: []string{name}, Verbs: []string{"update"}, Reason: "one replica",
		}
	}
	with := func(a Allowed, change func(*Allowed)) Allowed {
		change(&a)
		return a
	}
	const text = "wds: binding-controller may update leases.coordination.k8s.io b in starling-system: "
	for name, tc := range map[string]struct {
		uses []Right
		list []Allowed
		want []string
	}{
		"AllUsed":        {uses: all},
		"Unused":         {uses: []Right{pods, status, leaseA, report}, want: []string{text + "it was not used; remove the right, or add it to the allow-list with a reason"}},
		"Allowed":        {uses: []Right{pods, status, leaseA, report}, list: []Allowed{lease("b")}},
		"AllowedAndUsed": {uses: all, list: []Allowed{lease("b")}, want: []string{text + "the allow-list has it, and it was used; remove it from the list"}},
		"Sometimes":      {uses: all, list: []Allowed{with(lease("b"), func(a *Allowed) { a.Sometimes = true })}},
		"NoReason":       {uses: []Right{pods, status, leaseA, report}, list: []Allowed{with(lease("b"), func(a *Allowed) { a.Reason = "" })}, want: []string{text + "the allow-list has no reason"}},
		"Twice":          {uses: []Right{pods, status, leaseA, report}, list: []Allowed{lease("b"), lease("b")}, want: []string{text + "the allow-list has it twice"}},
		"NotGranted": {uses: all, list: []Allowed{lease("c")}, want: []string{
			"wds: binding-controller may update leases.coordination.k8s.io c in starling-system: the allow-list has it, and no rule grants it; remove it from the list",
		}},
		"OtherSubresource": {uses: []Right{pods, notStatus, leaseA, leaseB, report}, want: []string{
			"wds: binding-controller may patch */status.*: it was not used; remove the right, or add it to the allow-list with a reason",
		}},
		"OtherSpace": {uses: []Right{pods, status, leaseA, leaseB, otherSpace}, want: []string{
			"wds: status-agent may create workstatuses.control.kubestellar.io: it was not used; remove the right, or add it to the allow-list with a reason",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Compare(parse(t), tc.uses, tc.list)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
