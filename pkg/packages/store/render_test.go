package store

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/packages/functionrunner"
)

const sealedKptfile = `apiVersion: kpt.dev/v1
kind: Kptfile
metadata:
  name: web # ours
info:
  readinessGates:
  - conditionType: Scanned
`

// rendering returns a Store that renders with a function of the test.
func rendering(do func(kpt.Files) (render.Result, error)) *Store {
	return &Store{Config: Config{Render: func(_ context.Context, files kpt.Files) (render.Result, error) { return do(files) }}}
}

func passes(files kpt.Files) (render.Result, error) { return render.Result{Files: files}, nil }

func TestRenderDraft(t *testing.T) {
	condition := func(kind string, status porchv1alpha1.ConditionStatus, reason, message string) porchv1alpha1.Condition {
		return porchv1alpha1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	passed := condition(porchv1alpha1.ConditionPipelinePassed, "True", ReasonPipelinePassed, "package pipeline completed successfully")
	cases := map[string]struct {
		render     func(kpt.Files) (render.Result, error)
		conditions []porchv1alpha1.Condition
		want       []porchv1alpha1.Condition
		wantErr    string
	}{
		"Passes": {passes, nil, []porchv1alpha1.Condition{passed}, ""},
		"Others": {
			passes,
			[]porchv1alpha1.Condition{condition("Scanned", "Unknown", "", ""), condition("", "True", "", ""), condition("Scanned", "False", "Found", "a hole")},
			[]porchv1alpha1.Condition{condition("Scanned", "False", "Found", "a hole"), passed},
			"",
		},
		"Forged": {
			func(files kpt.Files) (render.Result, error) {
				return render.Result{Files: files}, errors.New("no: " + strings.Repeat("x", 3*maxMessage))
			},
			[]porchv1alpha1.Condition{passed},
			[]porchv1alpha1.Condition{condition(porchv1alpha1.ConditionPipelinePassed, "False", ReasonPipelineFailed, text.Clip("no: "+strings.Repeat("x", 3*maxMessage), maxMessage))},
			"",
		},
		"Killed": {
			func(files kpt.Files) (render.Result, error) {
				return render.Result{Files: files}, &functionrunner.KilledError{Image: "f", Reason: "it held too much"}
			}, nil, nil, "function f was killed: it held too much",
		},
		"NoPackage": {
			func(files kpt.Files) (render.Result, error) {
				return render.Result{Files: files}, &render.PackageError{Err: errors.New("x.yaml: is there twice")}
			}, nil, nil, "x.yaml: is there twice",
		},
		"Grown": {
			func(kpt.Files) (render.Result, error) {
				return render.Result{Files: kpt.Files{"Kptfile": sealedKptfile, "large": strings.Repeat("x", kpt.MaxBytes)}}, nil
			},
			nil,
			[]porchv1alpha1.Condition{condition(porchv1alpha1.ConditionPipelinePassed, "False", ReasonPipelineFailed, "the rendered package: the package has 6291578 bytes; at most 6291456 are allowed")},
			"",
		},
		"BadStatus": {passes, []porchv1alpha1.Condition{condition("Scanned", "Yes", "", "")}, nil, "status.conditions[Scanned].status"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := draftOf(kpt.Files{"Kptfile": sealedKptfile, "a.yaml": "a: b # as it is\n"})
			if err != nil {
				t.Fatal(err)
			}
			d.conditions = tc.conditions
			got, err := rendering(tc.render).renderDraft(t.Context(), "r.web.v1", d)
			if tc.wantErr != "" {
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error %v, want one that says %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.conditions); diff != "" && name != "Grown" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if name == "Grown" && (got.conditions[0].Status != porchv1alpha1.ConditionFalse || got.files["large"] != "") {
				t.Errorf("a package that grew: %+v", got.conditions)
			}
			want := []porchv1alpha1.ReadinessGate{{ConditionType: "Scanned"}, {ConditionType: porchv1alpha1.ConditionPipelinePassed}}
			if diff := cmp.Diff(want, got.gates); diff != "" {
				t.Errorf("gates (-want +got):\n%s", diff)
			}
			if strings.Contains(got.files["Kptfile"], "no: x") {
				t.Errorf("the message of a failure is in the Kptfile: %s", got.files["Kptfile"])
			}
			if got.files["a.yaml"] != "a: b # as it is\n" || !strings.Contains(got.files["Kptfile"], "name: web # ours") {
				t.Errorf("files %q", got.files)
			}
			// Rendering again changes nothing: equal parts of the Kptfile are not rewritten.
			again, err := draftOf(got.files)
			if err != nil {
				t.Fatal(err)
			}
			twice, err := rendering(tc.render).renderDraft(t.Context(), "r.web.v1", again)
			if err != nil {
				t.Fatal(err)
			}
			if name != "Grown" {
				if diff := cmp.Diff(got.files, twice.files); diff != "" {
					t.Errorf("once more (-first +second):\n%s", diff)
				}
			}
		})
	}
}

// TestNotDeliverable: a package for clusters that none can get as a whole does not pass. Its files
// are as rendered, so that its author sees what is wrong. Another package may be anything.
func TestNotDeliverable(t *testing.T) {
	const cm = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n"
	sub := "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: sub\n"
	cases := map[string]struct {
		files kpt.Files
		want  string
	}{
		"Deliverable":  {kpt.Files{"a.yaml": cm, "values.yaml": "a: b\n"}, ""},
		"Subpackages":  {kpt.Files{"a.yaml": cm, "sub/Kptfile": sub, "sub/a.yaml": cm}, "sub/a.yaml: ConfigMap c: is also in a.yaml"},
		"ByNamespace":  {kpt.Files{"a.yaml": cm, "sub/Kptfile": sub, "sub/a.yaml": cm + "  namespace: default\n"}, "sub/a.yaml: ConfigMap default/c: is also in a.yaml"},
		"NoName":       {kpt.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: c}\n"}, "a.yaml: ConfigMap: has no metadata.name"},
		"Item":         {kpt.Files{"a.yaml": "apiVersion: v1\nkind: List\nitems: [a]\n"}, "a.yaml: document 1: item 0 of the List is not an object"},
		"ForTools":     {kpt.Files{"a.yaml": cm + "  annotations:\n    config.kubernetes.io/local-config: \"true\"\n", "b.yaml": cm}, ""},
		"Ignored":      {kpt.Files{"a.yaml": cm, "old.yaml": cm, ".krmignore": "old.yaml\n"}, ""},
		"ForTheHub":    {kpt.Files{"a.yaml": "apiVersion: config.porch.kpt.dev/v1alpha1\nkind: PackageVariant\nmetadata:\n  name: a\n"}, ""},
		"NotInOneFile": {kpt.Files{"a.yaml": cm + "---\nb: c\n"}, "a.yaml: has documents that are objects, and others that are not"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.files["Kptfile"] = sealedKptfile
			for _, deployment := range []bool{false, true} {
				d, err := draftOf(tc.files)
				if err != nil {
					t.Fatal(err)
				}
				d.deployment = deployment
				rendered := func(files kpt.Files) (render.Result, error) {
					return render.Result{Files: withFile(files, "rendered", "yes\n")}, nil
				}
				got, err := rendering(rendered).renderDraft(t.Context(), "r.web.v1", d)
				if err != nil {
					t.Fatal(err)
				}
				c, want := got.conditions[len(got.conditions)-1], tc.want
				if !deployment {
					want = ""
				}
				if wrong := want != ""; wrong != (c.Reason == ReasonNotDeliverable) || wrong != (c.Status == porchv1alpha1.ConditionFalse) ||
					!strings.Contains(c.Message, want) || wrong != (got.renderStatus().Err == c.Message) {
					t.Errorf("deployment %t: %+v, want %q", deployment, c, want)
				}
				if got.files["rendered"] == "" {
					t.Errorf("deployment %t: the files are not as rendered", deployment)
				}
			}
		})
	}
}

// TestSetContent: an imported revision has the gate of the pipeline. Whether it is met is unknown,
// also if its Kptfile says that it is: anybody may have written that.
func TestSetContent(t *testing.T) {
	files := kpt.Files{"Kptfile": sealedKptfile + "status:\n  conditions:\n  - {type: PackagePipelinePassed, status: \"True\"}\n  - {type: Scanned, status: \"True\"}\n"}
	cr := &storev1alpha1.PackageRevision{}
	for range 2 { // of each import the same
		if err := SetContent(cr, files, "sha256:abc"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]porchv1alpha1.ReadinessGate{{ConditionType: "Scanned"}, {ConditionType: "PackagePipelinePassed"}}, cr.Spec.ReadinessGates); diff != "" {
			t.Errorf("gates (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]porchv1alpha1.Condition{
			{Type: "Scanned", Status: "True"}, {Type: "PackagePipelinePassed", Status: "Unknown", Reason: ReasonNotRendered, Message: "imported as its author wrote it"},
		}, cr.Status.Conditions); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
	}
}

func TestPackageContext(t *testing.T) {
	const ours = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\ndata:\n  name: web\n  package-path: site/web\n"
	for name, tc := range map[string]struct{ before, want string }{
		"Absent":  {"", ours},
		"Current": {"# kept\n" + ours, "# kept\n" + ours},
		"Other":   {strings.Replace(ours, "name: web\n  package-path: site/web", "name: old\n  more: x", 1), "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\ndata:\n  name: web\n  more: x\n  package-path: site/web\n"},
	} {
		files := kpt.Files{}
		if tc.before != "" {
			files[contextFile] = tc.before
		}
		got, err := addPackageContext(files, deploymentRepository(), "site/web")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got[contextFile]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	kptfile := func(name string) string {
		return "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: " + name + "\n"
	}
	nested := kpt.Files{
		"Kptfile": kptfile("blueprint"), "db/Kptfile": kptfile("store"), "db/backup/Kptfile": kptfile("backup"), "plain/a.yaml": "a: b\n",
		"db/backup/" + contextFile: strings.Replace(ours, "name: web\n  package-path: site/web", "name: example\n  kept: x", 1),
	}
	got, err := addPackageContext(nested, deploymentRepository(), "site/web")
	if err != nil {
		t.Fatal(err)
	}
	want := maps.Clone(nested)
	want[contextFile] = ours
	want["db/"+contextFile] = strings.Replace(ours, "name: web", "name: store", 1)
	want["db/backup/"+contextFile] = strings.Replace(ours, "name: web\n", "name: backup\n  kept: x\n", 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subpackages (-want +got):\n%s", diff)
	}
	again, err := addPackageContext(got, deploymentRepository(), "site/web")
	if diff := cmp.Diff(got, again); diff != "" || err != nil {
		t.Errorf("again: %v (-want +got):\n%s", err, diff)
	}
	if got, err := addPackageContext(nested, &configv1alpha1.Repository{}, "site/web"); err != nil || len(got) != len(nested) {
		t.Errorf("not a deployment repository: %v, %v", got, err)
	}
	if _, err := addPackageContext(kpt.Files{contextFile: "a: [b"}, deploymentRepository(), "web"); err == nil {
		t.Error("a file that cannot be read is no error")
	}
}

func deploymentRepository() *configv1alpha1.Repository {
	return &configv1alpha1.Repository{Spec: configv1alpha1.RepositorySpec{Deployment: true}}
}
