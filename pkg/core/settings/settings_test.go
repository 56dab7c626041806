package settings

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestData: what a controller publishes is what a command reads.
func TestData(t *testing.T) {
	defaults, none := Defaults()
	for name, want := range map[string]Bindings{
		"Defaults": defaults,
		"All":      {APIGroups: []string{"", "apps"}, IncludeGenerated: true, MaxBindingSize: 4096, PackagesUser: "system:serviceaccount:a:b"},
		"CoreOnly": {APIGroups: []string{""}, MaxBindingSize: 4096}, // not the same as all
	} {
		got, err := ParseBindings(want.Data())
		if want.APIGroups == nil {
			want.APIGroups = []string{}
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s (-want +got): %v\n%s", name, err, diff)
		}
	}
	earlier := defaults.Data()
	delete(earlier, keyUser)
	if got, err := ParseBindings(earlier); got.PackagesUser != "" || err != nil {
		t.Errorf("of an earlier version: %+v, %v", got, err)
	}
	for _, want := range []Transport{none, {ManagementNamespaces: []string{"open-cluster-management-hub"}}} {
		got, err := ParseTransport(want.Data())
		if diff := cmp.Diff(append([]string{}, want.ManagementNamespaces...), got.ManagementNamespaces); diff != "" || err != nil {
			t.Errorf("(-want +got): %v\n%s", err, diff)
		}
	}
	for name, data := range map[string]map[string]string{
		"Nothing": {}, "Partly": {keyAPIGroups: "[]", keySize: "5"}, "NoNumber": {keyAPIGroups: "[]", keyGenerated: "false", keySize: "x"},
		"NoSize": {keyAPIGroups: "[]", keyGenerated: "false", keySize: "0"}, "NoList": {keyAPIGroups: "a,b", keyGenerated: "false", keySize: "5"},
	} {
		if _, err := ParseBindings(data); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
	if _, err := ParseTransport(nil); err == nil {
		t.Error("settings without data are no error")
	}
}

func TestSelectable(t *testing.T) {
	core, crd := schema.GroupResource{Resource: "configmaps"}, schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	deployments, events := schema.GroupResource{Group: "apps", Resource: "deployments"}, schema.GroupResource{Resource: "events"}
	for _, tc := range []struct {
		groups []string
		want   []schema.GroupResource
	}{
		{nil, []schema.GroupResource{core, crd, deployments}},
		{[]string{"apps"}, []schema.GroupResource{crd, deployments}},
		{[]string{""}, []schema.GroupResource{core, crd}},
	} {
		b := Bindings{APIGroups: tc.groups}
		var got []schema.GroupResource
		for _, gr := range []schema.GroupResource{core, crd, deployments, events} {
			if b.Selectable(gr) {
				got = append(got, gr)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.groups, diff)
		}
	}
}

func TestNotes(t *testing.T) {
	known := Known{}
	if notes := known.Notes(); notes != nil {
		t.Errorf("notes on what is known: %q", notes)
	}
	unknown := Unknown("you may not get it")
	if notes := unknown.Notes(); len(notes) != 2 || !strings.Contains(notes[0], "--max-binding-size=409600") {
		t.Errorf("notes %q", notes)
	}
}
