package manifests_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/manifests"
)

// TestIn has the rules of kpt for ignore files.
func TestIn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ignore map[string]string
		want   []string
	}{
		"None":               {nil, []string{"Kptfile", "a.yaml", "b.json", "charts/a.yaml", "charts/deep/a.yaml", "sub/Kptfile", "sub/a.yaml", "sub/charts/a.yaml"}},
		"Directory":          {map[string]string{".krmignore": "charts/\n"}, []string{"Kptfile", "a.yaml", "b.json", "sub/Kptfile", "sub/a.yaml", "sub/charts/a.yaml"}},
		"Comments":           {map[string]string{".krmignore": "# charts\n\n b.json \n"}, []string{"Kptfile", "a.yaml", "charts/a.yaml", "charts/deep/a.yaml", "sub/Kptfile", "sub/a.yaml", "sub/charts/a.yaml"}},
		"Name":               {map[string]string{".krmignore": "a.yaml"}, []string{"Kptfile", "b.json", "sub/Kptfile", "sub/a.yaml", "sub/charts/a.yaml"}},
		"FromTheRoot":        {map[string]string{".krmignore": "/a.yaml"}, []string{"Kptfile", "b.json", "charts/a.yaml", "charts/deep/a.yaml", "sub/Kptfile", "sub/a.yaml", "sub/charts/a.yaml"}},
		"Pattern":            {map[string]string{".krmignore": "*.yaml\n!charts/a.yaml\n"}, []string{"Kptfile", "b.json", "charts/a.yaml", "sub/Kptfile", "sub/a.yaml", "sub/charts/a.yaml"}},
		"NoSubpackage":       {map[string]string{".krmignore": "sub/\nKptfile\n"}, []string{"Kptfile", "a.yaml", "b.json", "charts/a.yaml", "charts/deep/a.yaml", "sub/Kptfile", "sub/a.yaml", "sub/charts/a.yaml"}},
		"OfASubpackage":      {map[string]string{"sub/.krmignore": "charts\n"}, []string{"Kptfile", "a.yaml", "b.json", "charts/a.yaml", "charts/deep/a.yaml", "sub/Kptfile", "sub/a.yaml"}},
		"OfAnotherDirectory": {map[string]string{"charts/.krmignore": "*\n"}, []string{"Kptfile", "a.yaml", "b.json", "charts/a.yaml", "charts/deep/a.yaml", "sub/Kptfile", "sub/a.yaml", "sub/charts/a.yaml"}},
	} {
		files := kpt.Files{}
		for _, file := range []string{"Kptfile", "README.md", "a.yaml", "b.json", "charts/a.yaml", "charts/deep/a.yaml", "charts/NOTES.txt", "sub/Kptfile", "sub/a.yaml", "sub/charts/a.yaml"} {
			files[file] = ""
		}
		maps.Copy(files, tc.ignore)
		in := manifests.In(files)
		got := slices.DeleteFunc(files.Paths(), func(name string) bool { return !in(name) })
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestObjects(t *testing.T) {
	t.Parallel()
	object, none := manifests.Document{APIVersion: "v1", Kind: "ConfigMap"}, manifests.Document{}
	for name, tc := range map[string]struct {
		documents []manifests.Document
		want      bool
		wantErr   string
	}{
		"Nothing": {},
		"Objects": {[]manifests.Document{object, object}, true, ""},
		"Values":  {[]manifests.Document{none, none}, false, ""},
		"Half":    {[]manifests.Document{{APIVersion: "v2"}}, false, "document 1 is not an object: it has only one of apiVersion and kind; if it is not for clusters, list the file in .krmignore"},
		"Mixed":   {[]manifests.Document{object, none}, false, "has documents that are objects, and others that are not: move the others to a file of their own"},
	} {
		got, err := manifests.Objects(tc.documents)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != tc.want || text != tc.wantErr {
			t.Errorf("%s: %t, %q", name, got, text)
		}
	}
}

func TestForTools(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		apiVersion, local string
		set, want         bool
	}{
		{"v1", "", false, false},
		{"v1", "true", true, true},
		{"v1", "", true, true},
		{"v1", "false", true, false},
		{"kpt.dev/v1alpha1", "false", true, true},
		{"kustomize.config.k8s.io/v1beta1", "", false, true},
		{"kustomize.toolkit.fluxcd.io/v1", "", false, false},
	} {
		if got := manifests.ForTools(manifests.Document{APIVersion: tc.apiVersion, Kind: "Kind"}, tc.local, tc.set); got != tc.want {
			t.Errorf("%+v: %t", tc, got)
		}
	}
}
