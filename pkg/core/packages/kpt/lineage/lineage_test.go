package lineage

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

func revision(name string, n int, tasks ...porchv1alpha1.Task) porchv1alpha1.PackageRevision {
	parts := strings.Split(name, ".")
	var r porchv1alpha1.PackageRevision
	r.Name = name
	r.Spec = porchv1alpha1.PackageRevisionSpec{RepositoryName: parts[0], PackageName: parts[1], WorkspaceName: parts[2], Revision: n, Tasks: tasks}
	if n != 0 {
		r.Spec.Lifecycle = porchv1alpha1.LifecyclePublished
	}
	return r
}

func initialised() porchv1alpha1.Task {
	return porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeInit, Init: &porchv1alpha1.PackageInitTaskSpec{}}
}

func cloned(from string) porchv1alpha1.Task {
	upstream := porchv1alpha1.UpstreamPackage{UpstreamRef: &porchv1alpha1.PackageRevisionRef{Name: from}}
	return porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeClone, Clone: &porchv1alpha1.PackageCloneTaskSpec{Upstream: upstream}}
}

func clonedFromGit(ref string) porchv1alpha1.Task {
	upstream := porchv1alpha1.UpstreamPackage{Git: &porchv1alpha1.GitPackage{Repo: "https://example.com/up", Directory: "web", Ref: ref}}
	return porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeClone, Clone: &porchv1alpha1.PackageCloneTaskSpec{Upstream: upstream}}
}

func edited(from string) porchv1alpha1.Task {
	return porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeEdit, Edit: &porchv1alpha1.PackageEditTaskSpec{Source: &porchv1alpha1.PackageRevisionRef{Name: from}}}
}

func upgraded(before, after, local string) porchv1alpha1.Task {
	return porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeUpgrade, Upgrade: &porchv1alpha1.PackageUpgradeTaskSpec{
		OldUpstream: porchv1alpha1.PackageRevisionRef{Name: before}, NewUpstream: porchv1alpha1.PackageRevisionRef{Name: after},
		LocalPackageRevisionRef: porchv1alpha1.PackageRevisionRef{Name: local},
	}}
}

func locked(r porchv1alpha1.PackageRevision, self, upstream string) porchv1alpha1.PackageRevision {
	lock := func(commit string) *porchv1alpha1.Locator {
		if commit == "" {
			return nil
		}
		return &porchv1alpha1.Locator{Type: porchv1alpha1.RepositoryTypeGit, Git: &porchv1alpha1.GitLock{Repo: "https://example.com/up", Directory: "/web", Commit: commit}}
	}
	r.Status.SelfLock, r.Status.UpstreamLock = lock(self), lock(upstream)
	return r
}

func revisions() Revisions {
	push := porchv1alpha1.Task{Type: porchv1alpha1.TaskTypePush}
	circle := []porchv1alpha1.PackageRevision{revision("edge.circle.v1", 1, edited("edge.circle.v2")), revision("edge.circle.v2", 2, edited("edge.circle.v1"))}
	deletion := revision("up.web.v4", 4, edited("up.web.v3"))
	deletion.Spec.Lifecycle = porchv1alpha1.LifecycleDeletionProposed
	return append(Revisions{
		locked(revision("up.web.v1", 1, initialised(), push), "c1", ""),
		locked(revision("up.web.v2", 2, edited("up.web.v1"), push), "c2", ""),
		revision("up.web.v3", 3, edited("up.web.v2")),
		deletion,
		revision("up.web.main", -1),
		revision("up.web.v5", 0, edited("up.web.v3")),
		revision("edge.web.v1", 1, cloned("up.web.v1"), push),
		revision("edge.web.v2", 2, upgraded("up.web.v1", "up.web.v2", "edge.web.v1"), push),
		revision("edge.web.v3", 0, edited("edge.web.v2"), push),
		revision("edge.lost.v1", 1, cloned("up.gone.v1")),
		locked(revision("edge.git.v1", 1, clonedFromGit("v2")), "", "c2"),
		locked(revision("edge.foreign.v1", 1, clonedFromGit("v9")), "", "c9"),
		revision("edge.own.v1", 1, initialised()),
		revision("edge.none.v1", 1),
		revision("edge.odd.v1", 1, push),
	}, circle...)
}

func TestBaseAndUpstream(t *testing.T) {
	all := revisions()
	tests := map[string]struct{ base, baseErr, upstream, upstreamErr string }{
		"edge.web.v1":     {base: "up.web.v1", upstream: "up.web.v1"},
		"edge.web.v2":     {base: "edge.web.v1", upstream: "up.web.v2"},
		"edge.web.v3":     {base: "edge.web.v2", upstream: "up.web.v2"},
		"edge.git.v1":     {base: "up.web.v2", upstream: "up.web.v2"},
		"edge.own.v1":     {upstreamErr: "edge.own.v1 has no upstream: it was not cloned"},
		"edge.none.v1":    {upstreamErr: "edge.none.v1 has no upstream: it was not cloned"},
		"edge.lost.v1":    {baseErr: "edge.lost.v1 was created from up.gone.v1, which no longer exists", upstreamErr: "edge.lost.v1 was created from up.gone.v1, which no longer exists"},
		"edge.foreign.v1": {baseErr: "edge.foreign.v1 was cloned from https://example.com/up/web@v9, which no Repository in its namespace imports", upstreamErr: "edge.foreign.v1 was cloned from https://example.com/up/web@v9, which no Repository in its namespace imports"},
		"edge.odd.v1":     {baseErr: `edge.odd.v1 does not record what it was created from: its first task is of type "push"`, upstreamErr: "edge.odd.v1 has no upstream: it was not cloned"},
		"edge.circle.v1":  {base: "edge.circle.v2", upstreamErr: "edge.circle.v1 has no upstream: its revisions were created from each other in a cycle"},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			got := want
			got.base, got.baseErr = nameAndError(all.Base(all.Get(name)))
			got.upstream, got.upstreamErr = nameAndError(all.Upstream(all.Get(name)))
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(want)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func nameAndError(r *porchv1alpha1.PackageRevision, err error) (name, text string) {
	if err != nil {
		return "", err.Error()
	}
	if r == nil {
		return "", ""
	}
	return r.Name, ""
}

func TestFind(t *testing.T) {
	tests := map[string]struct{ repository, named, want, wantErr string }{
		"nothing":               {"up", "", "up.web.v4", ""},
		"the newest":            {"up", "latest", "up.web.v4", ""},
		"a number":              {"up", "2", "up.web.v2", ""},
		"with a v":              {"up", "v1", "up.web.v1", ""},
		"proposed for deletion": {"up", "v4", "up.web.v4", ""},
		"a workspace":           {"edge", "v2", "edge.web.v2", ""},
		"a main branch":         {"up", "main", "", `package web of repository up has no published revision "main"; it has v4, v3, v2, v1`},
		"an unknown package":    {"nowhere", "v2", "", "package web of repository nowhere has no published revision"},
		"a number too large":    {"up", "v99999999999999999999", "", `package web of repository up has no published revision "v99999999999999999999"; it has v4, v3, v2, v1`},
		"the workspace of one":  {"up", "v05", "", `package web of repository up has no published revision "v05"; it has v4, v3, v2, v1`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, gotErr := nameAndError(revisions().Find(test.repository, "web", test.named))
			if got != test.want || gotErr != test.wantErr {
				t.Errorf("got %q, %q", got, gotErr)
			}
		})
	}
}

// TestFindTags: revisions that were imported from tags without numbers.
func TestFindTags(t *testing.T) {
	var all Revisions
	for _, tag := range []string{"v1.9.0", "v1.10.0", "v2.0.0-rc.1", "candidate"} {
		r := revision("up.api."+strings.ReplaceAll(tag, ".", "-"), -1)
		r.Status.SelfLock = &porchv1alpha1.Locator{Git: &porchv1alpha1.GitLock{Directory: "api", Ref: "api/" + tag}}
		all = append(all, r)
	}
	const absent = `package api of repository up has no published revision "v3"; it has v2.0.0-rc.1, v1.10.0, v1.9.0, candidate`
	for named, want := range map[string]string{
		"": "up.api.v1-10-0", "latest": "up.api.v1-10-0", "v1.9.0": "up.api.v1-9-0", "v1-9-0": "up.api.v1-9-0", "candidate": "up.api.candidate", "v3": absent,
	} {
		name, text := nameAndError(all.Find("up", "api", named))
		if name+text != want {
			t.Errorf("%s: %s%s, want %s", named, name, text, want)
		}
	}
}

func TestWorkspace(t *testing.T) {
	long := strings.Repeat("a", 62) + "-b"
	all := append(revisions(), revision("edge.web.upgrade-v3", 0), revision("edge.web.upgrade-v3-2", 0))
	tests := map[string]string{
		"free":       "free",
		"v1":         "v1-4", // v1, and then v1-2 and v1-3 below
		"upgrade-v3": "upgrade-v3-3",
		long:         strings.Repeat("a", 62),
	}
	all = append(all, revision("edge.web.v1-2", 0), revision("edge.web.v1-3", 0))
	for wanted, want := range tests {
		if got := all.Workspace("edge", "web", wanted); got != want {
			t.Errorf("%s: got %s, want %s", wanted, got, want)
		}
	}
}

func TestSources(t *testing.T) {
	names, elsewhere := Sources(Revisions{
		revision("edge.web.v1", 1, cloned("up.web.v1")),
		revision("edge.web.v2", 2, upgraded("up.web.v1", "up.web.v2", "edge.web.v1")),
		revision("edge.web.v3", 0, edited("edge.web.v2")),
		revision("edge.own.v1", 0, initialised()),
	})
	if diff := cmp.Diff([]string{"edge.web.v1", "edge.web.v2", "up.web.v1", "up.web.v2"}, names); diff != "" || elsewhere {
		t.Errorf("elsewhere %t (-want +got)\n%s", elsewhere, diff)
	}
	if names, elsewhere := Sources(Revisions{revision("edge.git.v1", 1, clonedFromGit("v1"))}); len(names) > 0 || !elsewhere {
		t.Errorf("%v, %t", names, elsewhere)
	}
}

func TestFromGit(t *testing.T) {
	imported := func(name string, n int, repo, directory, ref, commit string) porchv1alpha1.PackageRevision {
		r := revision(name, n)
		r.Status.SelfLock = &porchv1alpha1.Locator{Git: &porchv1alpha1.GitLock{Repo: repo, Directory: directory, Ref: ref, Commit: commit}}
		return r
	}
	const repo = "https://example.com/packages.git"
	all := Revisions{
		imported("up.web.v1", 1, repo, "web", "web/v1", "0123456789abcdef"),
		imported("up.web.v3", 3, repo, "web", "web/v3", "3333333333333333"),
		imported("up.web.v2", 2, repo, "web", "web/v2", "2222222222222222"),
		imported("up.web.main", -1, repo, "web", "main", "4444444444444444"),
		imported("up.web.candidate", -1, repo, "web", "web/candidate", "6666666666666666"),
		imported("up.db.v1", 1, repo, "db", "db/v1", "0123456789abcdef"),
		imported("up.api.v1-2-3", -1, repo, "api", "api/v1.2.3", "7777777777777777"),
		imported("up.api.v1-3-0", -1, repo, "api", "api/v1.3.0", "8888888888888888"),
		imported("up.api.v1-10-0-rc-1", -1, repo, "api", "api/v1.10.0-rc.1", "9999999999999999"),
		imported("up.api.main", -1, repo, "api", "main", "9999999999999999"),
		imported("other.web.v1", 1, "https://example.com/other", "web", "web/v1", "5555555555555555"),
		revision("edge.own.v1", 1),
	}
	tests := map[string]struct {
		from porchv1alpha1.GitPackage
		want string
	}{
		"a tag":              {porchv1alpha1.GitPackage{Repo: repo, Directory: "web", Ref: "web/v1"}, "up.web.v1"},
		"a version":          {porchv1alpha1.GitPackage{Repo: repo, Directory: "/web/", Ref: "v2"}, "up.web.v2"},
		"a commit":           {porchv1alpha1.GitPackage{Repo: repo, Directory: "db", Ref: "01234567"}, "up.db.v1"},
		"a short commit":     {porchv1alpha1.GitPackage{Repo: repo, Directory: "db", Ref: "0123"}, ""},
		"the newest":         {porchv1alpha1.GitPackage{Repo: "https://example.com/packages/", Directory: "web"}, "up.web.v3"},
		"without a number":   {porchv1alpha1.GitPackage{Repo: repo, Directory: "web", Ref: "candidate"}, "up.web.candidate"},
		"the newest tag":     {porchv1alpha1.GitPackage{Repo: repo, Directory: "api"}, "up.api.v1-3-0"},
		"a semantic version": {porchv1alpha1.GitPackage{Repo: repo, Directory: "api", Ref: "v1.2.3"}, "up.api.v1-2-3"},
		"the commit of it":   {porchv1alpha1.GitPackage{Repo: repo, Directory: "api", Ref: "99999999"}, "up.api.v1-10-0-rc-1"},
		"a branch":           {porchv1alpha1.GitPackage{Repo: repo, Directory: "web", Ref: "main"}, ""},
		"another address":    {porchv1alpha1.GitPackage{Repo: "https://example.com/other.git", Directory: "web", Ref: "v1"}, "other.web.v1"},
		"an unknown address": {porchv1alpha1.GitPackage{Repo: "https://example.com/nobody", Directory: "web", Ref: "v1"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, _ := nameAndError(all.FromGit(&test.from), nil); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestFromOCI(t *testing.T) {
	imported := func(name string, n int, image, digest string) porchv1alpha1.PackageRevision {
		r := revision(name, n)
		r.Status.SelfLock = &porchv1alpha1.Locator{OCI: &porchv1alpha1.OCILock{Image: image, Digest: digest}}
		return r
	}
	all := Revisions{
		imported("up.web.v1", 1, "localhost:5000/team/web:v1", "sha256:1"),
		imported("up.web.v2", 2, "localhost:5000/team/web:v2", "sha256:2"),
		imported("up.web.rc", -1, "localhost:5000/team/web:rc", "sha256:3"),
		imported("up.api.v1-9-0", -1, "localhost:5000/team/api:v1.9.0", "sha256:4"),
		imported("up.api.v1-10-0", -1, "localhost:5000/team/api:v1.10.0", "sha256:5"),
		revision("edge.own.v1", 1),
	}
	for image, want := range map[string]string{
		"localhost:5000/team/web:v1": "up.web.v1", "localhost:5000/team/web": "up.web.v2", "localhost:5000/team/web:rc": "up.web.rc",
		"localhost:5000/team/api": "up.api.v1-10-0", "localhost:5000/team/api:v1.9.0": "up.api.v1-9-0",
		"localhost:5000/team/web@sha256:1": "up.web.v1", "localhost:5000/team/web:v2@sha256:1": "", "localhost:5000/team/web:v9": "", "localhost:5000/web:v1": "",
	} {
		if got, _ := nameAndError(all.FromOCI(image), nil); got != want {
			t.Errorf("%s: got %q, want %q", image, got, want)
		}
	}
}
