package variants

import (
	"strings"
	"testing"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
)

const searchReplace = "mutators: [{image: search-replace:v0.2, name: words, configMap: {by-value: old, put-value: new}}]"

// TestFunctionsLeaveWhatTheVariantSets: a function finds its own configuration in the Kptfile, and
// the value of an injected object. Both stay, and the PackageVariant comes to rest.
func TestFunctionsLeaveWhatTheVariantSets(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	e.create(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: north}, data: {word: old}}")
	v1 := e.publish(t, "catalog", "web", "v1", "", map[string]string{
		"a.yaml": configMap("a", "word", "old"),
		"i.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: i\n  annotations:\n    kpt.dev/config-injection: required\n",
	})
	e.create(t, variantText("web", "package: web, revision: latest", "web", "pipeline: {"+searchReplace+"}, injectors: [{name: north}]"))
	e.ready(t, "web", v1, configv1alpha1.VariantDraft)
	e.quiet(t)
	files := e.files(t, e.only(t, "edge", "web", draft).Name)
	if !strings.Contains(files["Kptfile"], "by-value: old") || !strings.Contains(files["i.yaml"], "word: old") || !strings.Contains(files["a.yaml"], "word: new") {
		t.Errorf("rendered:\n%s", asText(t, files))
	}
	if written := e.traffic.Written("packagerevisionresources"); len(written) != 1 {
		t.Errorf("files were written %d times: %q", len(written), written)
	}
}

// TestMutationsThatDoNotConverge: a function of the package changes the package context that the
// PackageVariant sets. After the second round that is an error, and nothing more is written, until
// a user changes something.
func TestMutationsThatDoNotConverge(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	v1 := e.publish(t, "catalog", "web", "v1", "", map[string]string{
		"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: web\npipeline:\n  mutators:\n  - image: search-replace:v0.2\n    configMap:\n      by-value: north\n      put-value: south\n",
	})
	e.create(t, variantText("web", "package: web, revision: latest", "web", "packageContext: {data: {site: north}}"))
	text := e.condition(t, "web", configv1alpha1.ConditionReady, configv1alpha1.ReasonError)
	if !strings.Contains(text, "functions of the package change what the PackageVariant sets in package-context.yaml") {
		t.Errorf("Ready: %s", text)
	}
	e.quiet(t)
	if written := e.traffic.Written("packagerevisionresources"); len(written) != 2 {
		t.Errorf("files were written %d times: %q", len(written), written)
	}
	made := e.only(t, "edge", "web", draft)
	complete := ""
	for _, c := range made.Status.Conditions {
		if c.Type == configv1alpha1.ConditionPVOperationsComplete {
			complete = string(c.Status) + " " + c.Reason
		}
	}
	if complete != "False "+configv1alpha1.ReasonOperationsFailed {
		t.Errorf("%s: %s", configv1alpha1.ConditionPVOperationsComplete, complete)
	}

	e.replace(t, variantText("web", "package: web, revision: latest", "web", "packageContext: {data: {site: east}}"))
	e.ready(t, "web", v1, configv1alpha1.VariantDraft)
}
