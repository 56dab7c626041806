package repositories

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestValidation(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	const git = "{type: git, git: {repo: 'https://host/r.git'}}"
	cases := map[string]struct {
		name, spec string
		// change is a spec that it is updated to.
		change  string
		wantErr string
	}{
		"Hub":               {spec: "{}"},
		"HubByName":         {spec: "{type: hub, deployment: true, description: x}"},
		"Porch":             {spec: "{type: git, content: Package, deployment: false, git: {repo: 'https://host/r.git', branch: main, directory: /, secretRef: {name: s}}}"},
		"PorchSync":         {spec: "{type: git, sync: {schedule: '*/10 * * * *', runOnceAt: '2026-01-01T00:00:00Z'}, git: {repo: 'https://host/r.git', createBranch: true, author: A, email: a@b}}"},
		"PorchOCI":          {spec: "{type: oci, oci: {registry: 'host.example/a/b', secretRef: {name: s}}}"},
		"SSH":               {spec: "{type: git, git: {repo: 'ssh://git@host:22/r.git'}}"},
		"SCP":               {spec: "{type: git, git: {repo: 'git@host:r.git'}}"},
		"File":              {spec: "{type: git, git: {repo: 'file:///srv/r.git', branch: release/1.2}}"},
		"NoExport":          {spec: "{type: git, export: Disabled, git: {repo: 'https://host/r.git'}}"},
		"OCILoopback":       {spec: "{type: oci, oci: {registry: '127.0.0.1:5000/x', packages: [a/b]}}"},
		"NameTooLong":       {name: strings.Repeat("a", 64), spec: "{}", wantErr: "metadata.name must be a DNS label"},
		"NameWithDots":      {name: "a.b", spec: "{}", wantErr: "metadata.name must be a DNS label"},
		"UnknownType":       {spec: "{type: db}", wantErr: `supported values: "hub", "git", "oci"`},
		"OldContent":        {spec: "{content: Function}", wantErr: "supported values"},
		"GitWithoutGit":     {spec: "{type: git}", wantErr: "git.repo is required with type git"},
		"GitWithoutRepo":    {spec: "{type: git, git: {branch: main}}", wantErr: "spec.git.repo: Required value"},
		"GitWithoutType":    {spec: "{git: {repo: 'https://host/r'}}", wantErr: "git needs type git"},
		"OCIWithoutOCI":     {spec: "{type: oci}", wantErr: "oci.registry is required with type oci"},
		"OCIWithScheme":     {spec: "{type: oci, oci: {registry: 'https://host/a'}}", wantErr: "without a scheme"},
		"BothKinds":         {spec: "{type: git, git: {repo: 'https://host/r'}, oci: {registry: host/a}}", wantErr: "oci needs type oci"},
		"HubWithSync":       {spec: "{sync: {schedule: '@every 1m'}}", wantErr: "sync and export need type git or oci"},
		"Path":              {spec: "{type: git, git: {repo: /srv/r.git}}", wantErr: "git.repo must be an https://"},
		"Shell":             {spec: "{type: git, git: {repo: 'ext::sh -c id'}}", wantErr: "git.repo must be an https://"},
		"Password":          {spec: "{type: git, git: {repo: 'https://me:secret@host/r'}}", wantErr: "must not hold a user name or password"},
		"DirectoryClimbs":   {spec: "{type: git, git: {repo: 'https://host/r', directory: a/../../b}}", wantErr: "git.directory must be a path"},
		"BranchNoBranch":    {spec: "{type: git, git: {repo: 'https://host/r', branch: 'a..b'}}", wantErr: "git.branch must be the name of a branch"},
		"BranchWithSpace":   {spec: "{type: git, git: {repo: 'https://host/r', branch: 'a b'}}", wantErr: "git.branch must be the name of a branch"},
		"AuthorInjects":     {spec: "{type: git, git: {repo: 'https://host/r', author: \"a\\ncommitter x\"}}", wantErr: "git.author"},
		"ScheduleChanges":   {spec: git, change: "{type: git, sync: {schedule: '@every 1m'}, git: {repo: 'https://host/r.git', secretRef: {name: x}}}"},
		"TypeChanges":       {spec: "{}", change: git, wantErr: "type is immutable"},
		"RepoChanges":       {spec: git, change: "{type: git, git: {repo: 'https://host/other.git'}}", wantErr: "git.repo is immutable"},
		"BranchChanges":     {spec: git, change: "{type: git, git: {repo: 'https://host/r.git', branch: x}}", wantErr: "git.branch is immutable"},
		"DirectoryIsAdded":  {spec: git, change: "{type: git, git: {repo: 'https://host/r.git', directory: x}}", wantErr: "git.directory is immutable"},
		"RegistryChanges":   {spec: "{type: oci, oci: {registry: host/a}}", change: "{type: oci, oci: {registry: host/b}}", wantErr: "oci.registry is immutable"},
		"SpecIsTakenAway":   {spec: git, change: "{}", wantErr: "type is immutable"},
		"ExportIsNoBoolean": {spec: "{type: git, export: maybe, git: {repo: 'https://host/r'}}", wantErr: `supported values: "Enabled", "Disabled"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objectName := tc.name
			if objectName == "" {
				objectName = strings.ToLower(name)
			}
			got, err := e.repositories().Create(t.Context(), parse(t, objectName, tc.spec), metav1.CreateOptions{FieldValidation: "Strict"})
			if tc.change != "" {
				if err != nil {
					t.Fatal(err)
				}
				changed := parse(t, objectName, tc.change)
				changed.SetResourceVersion(got.GetResourceVersion())
				got, err = e.repositories().Update(t.Context(), changed, metav1.UpdateOptions{FieldValidation: "Strict"})
			}
			switch {
			case tc.wantErr == "" && err != nil:
				t.Error(err)
			case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("error %v, want one that says %q", err, tc.wantErr)
			}
			if err == nil {
				kind, _, _ := unstructured.NestedString(got.Object, "spec", "type")
				if kind == "" {
					t.Error("the type has no default")
				}
			}
		})
	}
}
