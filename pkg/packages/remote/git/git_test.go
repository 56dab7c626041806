package git_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/packages/remote/git"
	"github.com/starlinghq/starling/test/testgit"
)

// access is a protocol for reaching a repository.
type access struct {
	url    string
	secret map[string][]byte
	// server is the HTTP server, if there is one.
	server *testgit.Server
}

// eachAccess runs a test with every protocol.
func eachAccess(t *testing.T, test func(t *testing.T, r *testgit.Repository, a access)) {
	t.Helper()
	t.Run("File", func(t *testing.T) {
		r := testgit.New(t)
		test(t, r, access{url: r.URL()})
	})
	t.Run("HTTP", func(t *testing.T) {
		r, s := testgit.New(t), testgit.Serve(t)
		test(t, r, access{url: s.URL(r), server: s})
	})
	t.Run("PlainHTTP", func(t *testing.T) {
		r, s := testgit.New(t), testgit.ServePlain(t)
		test(t, r, access{url: s.URL(r), server: s})
	})
	t.Run("OldHTTP", func(t *testing.T) {
		r, s := testgit.New(t), testgit.ServeOld(t)
		test(t, r, access{url: s.URL(r), server: s})
	})
	t.Run("HTTPS", func(t *testing.T) {
		r, s := testgit.New(t), testgit.ServeTLS(t)
		test(t, r, access{url: s.URL(r), server: s, secret: map[string][]byte{"ca.crt": []byte(testgit.CA(s.Server))}})
	})
	t.Run("SSH", func(t *testing.T) {
		r := testgit.New(t)
		keys := newKeys(t)
		server := testgit.ServeSSH(t, keys.host, keys.user.PublicKey())
		test(t, r, access{url: "ssh://git@" + server + r.Dir, secret: keys.secret(server)})
	})
}

type keys struct {
	host, user ssh.Signer
	private    []byte
}

func newKeys(t *testing.T) keys {
	t.Helper()
	signer := func() (ssh.Signer, []byte) {
		_, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		signer, err := ssh.NewSignerFromKey(private)
		if err != nil {
			t.Fatal(err)
		}
		block, err := ssh.MarshalPrivateKey(private, "")
		if err != nil {
			t.Fatal(err)
		}
		return signer, pem.EncodeToMemory(block)
	}
	var k keys
	k.host, _ = signer()
	k.user, k.private = signer()
	return k
}

func (k keys) secret(server string) map[string][]byte {
	return map[string][]byte{
		"ssh-privatekey": k.private, "known_hosts": []byte(knownhosts.Line([]string{server}, k.host.PublicKey()) + "\n"),
	}
}

func options(a access) git.Options {
	return git.Options{Repo: a.url, Branch: "main", Secret: a.secret, FileRoots: []string{"/"}, Limits: remote.DefaultLimits()}
}

func open(t *testing.T, o git.Options) (*git.Repository, *remote.Listing) {
	t.Helper()
	r, err := git.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	listing, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r, listing
}

// load reads all listed refs, as lines.
func load(t *testing.T, r *git.Repository, listing *remote.Listing) []string {
	t.Helper()
	refs := slices.Clone(listing.Tags)
	if listing.Branch != nil {
		refs = append(refs, *listing.Branch)
	}
	var lines []string
	for _, revision := range loaded(t, r, refs) {
		text := revision.Problem
		switch {
		case revision.Files != nil:
			_, text, _ = strings.Cut(revision.Files["config.yaml"], "text: ")
			text = strings.TrimSpace(text)
		case text == "":
			text = "none"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %d: %s", revision.Name, revision.Package, revision.Workspace, revision.Number, text))
	}
	slices.Sort(lines)
	return lines
}

func loaded(t *testing.T, r *git.Repository, refs []remote.Ref) []remote.Revision {
	t.Helper()
	var all []remote.Revision
	err := r.Load(t.Context(), refs, func(revision remote.Revision) error {
		all = append(all, revision)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImport(t *testing.T) {
	eachAccess(t, func(t *testing.T, r *testgit.Repository, a access) {
		r.Package("web", "one")
		r.Package("infra/db", "one")
		r.Package("infra/db/backup", "a part of db")
		r.Files["README.md"] = "no package\n"
		first := r.Commit("main", "first\n\nkpt:{\"package\":\"web\",\"workspaceName\":\"mine\",\"revision\":\"v1\"}\n")
		r.Tag("web/v1", first)
		r.Tag("v1.0.0", first)
		r.Tag("nothing/v1", first)
		r.Tag("infra/db/v1", first)
		r.Package("web", "two")
		second := r.Commit("main", "second\n")
		r.Annotate("web/v2", second)
		r.Tag("web/v3.1-rc", second)
		r.SetRef("refs/heads/other", second)
		r.Package("web", "three")
		third := r.Commit("main", "third\n")

		repo, listing := open(t, options(a))
		if listing.Branch == nil || listing.Branch.ID != third || listing.Branch.Workspace != "main" {
			t.Errorf("branch %+v, want it at %s", listing.Branch, third)
		}
		want := []string{
			`infra/db/v1 infra/db v1 1: "one"`,
			`main infra/db main -1: "one"`,
			`main web main -1: "three"`,
			`nothing/v1 nothing v1 1: none`,
			`web/v1 web mine 1: "one"`,
			`web/v2 web v2 2: "two"`,
			`web/v3.1-rc web v3-1-rc -1: "two"`,
		}
		if diff := cmp.Diff(want, load(t, repo, listing)); diff != "" {
			t.Errorf("revisions (-want +got):\n%s", diff)
		}
		for _, revision := range loaded(t, repo, listing.Tags) {
			switch revision.Name {
			case "web/v2":
				if revision.ID != second {
					t.Errorf("an annotated tag leads to %s, want the commit %s", revision.ID, second)
				}
				if revision.By != "author@example.com" || !revision.At.Equal(time.Date(2026, 1, 1, 0, 2, 0, 0, time.UTC)) {
					t.Errorf("by %q at %s", revision.By, revision.At)
				}
			case "infra/db/v1":
				if diff := cmp.Diff([]string{"Kptfile", "backup/Kptfile", "backup/config.yaml", "config.yaml"}, revision.Files.Paths()); diff != "" {
					t.Errorf("files (-want +got):\n%s", diff)
				}
			}
		}
	})
}

func TestDirectory(t *testing.T) {
	eachAccess(t, func(t *testing.T, r *testgit.Repository, a access) {
		r.Package("packages/web", "in")
		r.Package("other/web", "out")
		commit := r.Commit("main", "x")
		r.Tag("packages/web/v1", commit)
		r.Tag("other/web/v1", commit)
		r.Tag("packages/v1", commit)
		o := options(a)
		o.Directory = "/packages/"
		repo, listing := open(t, o)
		if diff := cmp.Diff([]string{`main web main -1: "in"`, `packages/web/v1 web v1 1: "in"`}, load(t, repo, listing)); diff != "" {
			t.Errorf("revisions (-want +got):\n%s", diff)
		}
		o.Directory = "missing"
		repo, listing = open(t, o)
		err := repo.Load(t.Context(), []remote.Ref{*listing.Branch}, nil)
		if remote.KindOf(err) != remote.NotFound {
			t.Errorf("a directory that is missing: %v", err)
		}
	})
}

// TestPackagesBelowARootKptfile: the root is no package, because it has no name. It is reported,
// and hides no package.
func TestPackagesBelowARootKptfile(t *testing.T) {
	eachAccess(t, func(t *testing.T, r *testgit.Repository, a access) {
		kptfile := "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: all\n"
		r.Files["Kptfile"], r.Files["packages/Kptfile"] = kptfile, kptfile
		r.Package("packages/web", "one")
		r.Package("packages/web/part", "of web")
		r.Package("other", "two")
		commit := r.Commit("main", "x")
		r.Tag("packages/web/v1", commit)
		for directory, want := range map[string][]string{
			// packages is a package with a name, and web is a part of it.
			"":         {rootLine, `main other main -1: "two"`, "main packages main -1: ", `packages/web/v1 packages/web v1 1: "one"`},
			"packages": {rootLine, `main web main -1: "one"`, `packages/web/v1 web v1 1: "one"`},
		} {
			o := options(a)
			o.Directory = directory
			repo, listing := open(t, o)
			got := load(t, repo, listing)
			for i := range got {
				got[i], _, _ = strings.Cut(got[i], ";")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("directory %q: (-want +got):\n%s", directory, diff)
			}
		}
	})
}

// rootLine is the line of a root: its ref, no package, its workspace, and the start of its problem.
const rootLine = "main " + " main -1: " + "the root of the repository, or spec.git.directory, is not imported as a package, because it would have no name"

func TestInvalidPackagesDoNotBlockOthers(t *testing.T) {
	eachAccess(t, func(t *testing.T, r *testgit.Repository, a access) {
		r.Package("good", "good")
		r.Package("binary", "x")
		r.Files["binary/logo.png"] = "\x89PNG\x00\xff"
		r.Package("link", "x")
		r.Links["link/passwd"] = "/etc/passwd"
		sizes := !strings.HasSuffix(t.Name(), "/PlainHTTP") // that server takes very long for large files
		if sizes {
			r.Package("huge", "x")
			r.Files["huge/huge.txt"] = strings.Repeat("0123456789abcdef", 512<<10)
			r.Package("large", "x")
			for i := range 8 {
				r.Files[fmt.Sprintf("large/%d.txt", i)] = strings.Repeat(fmt.Sprint(i), 1<<20)
			}
		}
		r.Package("module", "x")
		r.Modules = []string{"module/sub"}
		r.Package("kptfile", "x")
		r.Files["kptfile/Kptfile"] = "{"
		r.Package("bomb", "x")
		bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
		for c := 'b'; c < 'j'; c++ {
			bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
		}
		r.Files["bomb/bomb.yaml"] = bomb
		r.Package("template", "x")
		r.Files["template/chart.yaml"] = "{{ if .Values.x }}\na: b\n{{ end }}\n"
		r.Package("climbs", "x")
		r.Files["climbs/../../etc/passwd"] = "x"
		commit := r.Commit("main", "x")
		r.Tag("link/v1", commit)

		repo, listing := open(t, options(a))
		got := load(t, repo, listing)
		for i, line := range got { // sizes and positions are irrelevant
			got[i], _, _ = strings.Cut(line, " has 8")
			got[i], _, _ = strings.Cut(got[i], "; ")
		}
		want := []string{
			`link/v1 link v1 1: passwd: symbolic links are not allowed in packages`,
			`main binary main -1: logo.png: is not UTF-8 text`,
			`main bomb main -1: bomb.yaml: line 1: is more than 1000000 nodes with its aliases expanded`,
			`main climbs main -1: path "../../etc/passwd" must be relative, clean, and below the package`,
			`main good main -1: "good"`,
			`main huge main -1: huge.txt: has more than 6291456 bytes`,
			`main kptfile main -1: Kptfile: line 1: did not find expected node content`,
			`main large main -1: the package has more than 6291456 bytes`,
			`main link main -1: passwd: symbolic links are not allowed in packages`,
			`main module main -1: sub: git submodules are not allowed in packages`,
			`main template main -1: "x"`,
		}
		for i := range got {
			if strings.Contains(got[i], "huge.txt:") {
				got[i] = want[5] // recognised by size, or by being omitted
			}
		}
		if !sizes {
			want = slices.DeleteFunc(want, func(line string) bool { return strings.Contains(line, "6291456 bytes") })
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("revisions (-want +got):\n%s", diff)
		}
	})
}

func TestBrokenTagDoesNotBlockOthers(t *testing.T) {
	r := testgit.New(t)
	r.Package("web", "x")
	r.Tag("web/v1", r.Commit("main", "x"))
	r.Tag("web/v2", strings.Repeat("1", 40))
	repo, listing := open(t, options(access{url: r.URL()}))
	want := []string{`main web main -1: "x"`, `web/v1 web v1 1: "x"`, "web/v2 web v2 2: read object " + strings.Repeat("1", 40) + ": object not found"}
	if diff := cmp.Diff(want, load(t, repo, listing)); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

func TestListIsOneRequest(t *testing.T) {
	r, s := testgit.New(t), testgit.Serve(t)
	r.Package("web", "x")
	r.Tag("web/v1", r.Commit("main", "x"))
	before := s.Requests.Load()
	open(t, options(access{url: s.URL(r)}))
	if got := s.Requests.Load() - before; got != 1 {
		t.Errorf("%d requests, want 1", got)
	}
}

func TestDescends(t *testing.T) {
	eachAccess(t, func(t *testing.T, r *testgit.Repository, a access) {
		r.Package("web", "1")
		first := r.Commit("main", "first")
		for i := range 5 {
			r.Package("web", fmt.Sprint(i))
			r.Commit("main", "next")
		}
		last := r.Ref("refs/heads/main")
		r.Package("web", "beside")
		beside := r.CommitOn("beside", "beside", first)
		for from, want := range map[string]bool{first: true, last: true, beside: false, strings.Repeat("1", 40): false} {
			repo, _ := open(t, options(a))
			got, err := repo.Descends(t.Context(), from)
			if err != nil && from == strings.Repeat("1", 40) && strings.HasSuffix(t.Name(), "/PlainHTTP") {
				continue // this server fails where it should say that it does not know the commit
			}
			if err != nil || got != want {
				t.Errorf("from %s: %t, %v; want %t", from, got, err, want)
			}
		}
		r.Package("web", "rewritten")
		r.CommitOn("main", "rewritten", first)
		repo, _ := open(t, options(a))
		if got, err := repo.Descends(t.Context(), last); err != nil || got {
			t.Errorf("after history was rewritten: %t, %v", got, err)
		}
		r.CommitOn("main", "merged", r.Ref("refs/heads/main"), last)
		repo, _ = open(t, options(a))
		if got, err := repo.Descends(t.Context(), last); err != nil || !got {
			t.Errorf("after a merge: %t, %v", got, err)
		}
	})
}

func exportOf(pkg string, number int, text string) remote.Export {
	return remote.Export{
		Package: pkg, Workspace: "ws" + fmt.Sprint(number), Number: number, By: "Jane <jane@example.com>", At: time.Date(2026, 2, 1, 0, 0, number, 0, time.UTC),
		Files: kpt.Files{
			"Kptfile":     "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: x\n",
			"config.yaml": fmt.Sprintf("text: %q\n", text), "a/b/c.txt": "deep",
		},
		Task: `{"type":"init","init":{"description":"x"}}`,
	}
}

func export(t *testing.T, o git.Options, exports ...remote.Export) []remote.ExportResult {
	t.Helper()
	repo, _ := open(t, o)
	results, err := repo.Export(t.Context(), exports)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestExport(t *testing.T) {
	eachAccess(t, func(t *testing.T, r *testgit.Repository, a access) {
		r.Package("packages/other", "stays")
		r.Files["packages/web/old.txt"] = "goes"
		base := r.Commit("main", "base")
		r.Tag("packages/web/base", base)
		o := options(a)
		o.Directory = "packages"
		exports := []remote.Export{exportOf("web", 2, "two"), exportOf("web", 1, "one"), exportOf("infra/db", 1, "db")}
		for i := range 2 { // made from what the branch has
			exports[i].Known = []remote.Ref{{Name: "packages/web/base", ID: base}}
		}
		results := export(t, o, exports...)
		for i, result := range results {
			if result.Problem != "" || result.Ref.ID == "" || result.Ref.ID != r.Ref("refs/tags/"+result.Ref.Name) {
				t.Errorf("export %d: %+v", i, result)
			}
		}
		want := []string{"refs/heads/main", "refs/tags/packages/infra/db/v1", "refs/tags/packages/web/base", "refs/tags/packages/web/v1", "refs/tags/packages/web/v2"}
		if diff := cmp.Diff(want, r.Refs()); diff != "" {
			t.Errorf("references (-want +got):\n%s", diff)
		}
		message, parents, files := r.Show(r.Ref("refs/tags/packages/web/v1"))
		wantMessage := "Publish packages/web v1\n\n" +
			`kpt:{"package":"packages/web","workspaceName":"ws1","revision":"v1","task":{"type":"init","init":{"description":"x"}}}` + "\n"
		if diff := cmp.Diff(wantMessage, message); diff != "" {
			t.Errorf("message (-want +got):\n%s", diff)
		}
		if len(parents) != 1 {
			t.Errorf("parents %v", parents)
		}
		wantFiles := []string{
			"packages/infra/db/Kptfile", "packages/infra/db/a/b/c.txt", "packages/infra/db/config.yaml", "packages/other/Kptfile", "packages/other/config.yaml",
			"packages/web/Kptfile", "packages/web/a/b/c.txt", "packages/web/config.yaml",
		}
		if diff := cmp.Diff(wantFiles, slices.Sorted(maps.Keys(files))); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		head := r.Ref("refs/heads/main")
		_, _, files = r.Show(head)
		if files["packages/web/config.yaml"] != "text: \"two\"\n" {
			t.Errorf("the branch has %q", files["packages/web/config.yaml"])
		}
		if repo, _ := open(t, o); repo.Head() != head {
			t.Errorf("head %s, want %s", repo.Head(), head)
		} else if ok, err := repo.Descends(t.Context(), base); err != nil || !ok {
			t.Errorf("the branch does not descend from what it was: %v", err)
		}

		t.Run("AgainChangesNothing", func(t *testing.T) {
			again := export(t, o, exports...)
			if diff := cmp.Diff(results, again); diff != "" {
				t.Errorf("results (-first +second):\n%s", diff)
			}
			if got := r.Ref("refs/heads/main"); got != head {
				t.Errorf("the branch moved to %s", got)
			}
		})
		t.Run("AfterACrashBetweenBranchAndTags", func(t *testing.T) {
			r.SetRef("refs/tags/packages/web/v2", "")
			again := export(t, o, exports...)
			if again[0].Problem != "" || r.Ref("refs/tags/packages/web/v2") != again[0].Ref.ID {
				t.Errorf("result %+v", again[0])
			}
			_, _, files := r.Show(again[0].Ref.ID)
			if files["packages/web/config.yaml"] != "text: \"two\"\n" {
				t.Errorf("the tag has %q", files["packages/web/config.yaml"])
			}
		})
		t.Run("OlderRevisionLeavesTheBranch", func(t *testing.T) {
			r.SetRef("refs/tags/packages/web/v1", "")
			before := r.Ref("refs/heads/main")
			if again := export(t, o, exports[1]); again[0].Problem != "" || r.Ref("refs/tags/packages/web/v1") == "" {
				t.Errorf("result %+v", again[0])
			}
			if got := r.Ref("refs/heads/main"); got != before {
				t.Errorf("the branch moved to %s", got)
			}
		})
		t.Run("OtherContentIsAConflict", func(t *testing.T) {
			before := r.Ref("refs/tags/packages/web/v2")
			results := export(t, o, exportOf("web", 2, "other"), exportOf("web", 3, "three"))
			if !results[0].Conflict || !strings.Contains(results[0].Problem, "packages/web/v2 with different content") || results[1].Problem != "" {
				t.Errorf("results %+v", results)
			}
			if r.Ref("refs/tags/packages/web/v2") != before || r.Ref("refs/tags/packages/web/v3") == "" {
				t.Error("the tags are wrong")
			}
		})
		t.Run("ComesBackTheSame", func(t *testing.T) {
			repo, listing := open(t, o)
			for _, revision := range loaded(t, repo, listing.Tags) {
				if revision.Name == "packages/web/v1" {
					if diff := cmp.Diff(exports[1].Files, revision.Files); diff != "" || revision.Workspace != "ws1" {
						t.Errorf("workspace %q, files (-want +got):\n%s", revision.Workspace, diff)
					}
				}
			}
		})
		t.Run("Remove", func(t *testing.T) {
			repo, listing := open(t, o)
			tags := listing.Tags
			tags[0].ID = strings.Repeat("2", 40) // it moved after the List
			if err := repo.Remove(t.Context(), tags); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"refs/heads/main", "refs/tags/" + tags[0].Name}, r.Refs()); diff != "" {
				t.Errorf("references (-want +got):\n%s", diff)
			}
		})
	})
}

// Executable files of the branch stay executable, whatever an export changes.
func TestExecutableFilesStay(t *testing.T) {
	eachAccess(t, func(t *testing.T, r *testgit.Repository, a access) {
		r.Files["web/Kptfile"], r.Files["web/config.yaml"], r.Files["web/a/b/c.txt"], r.Files["web/run.sh"], r.Files["other/run.sh"] = "x", "x", "x", "#!/bin/sh\n", "#!/bin/sh\n"
		for _, name := range []string{"web/config.yaml", "web/a/b/c.txt", "web/run.sh", "other/run.sh"} {
			r.Executable[name] = true
		}
		known := remote.Ref{Name: "web/base", ID: r.Commit("main", "base")}
		r.Tag(known.Name, known.ID)
		for _, e := range []remote.Export{exportOf("web", 1, "one"), exportOf("web", 2, "two")} {
			e.Known = []remote.Ref{known}
			results := export(t, options(a), e)
			if results[0].Problem != "" || results[0].BranchChanged != "" {
				t.Fatalf("%+v", results[0])
			}
			known = results[0].Ref
			want := []string{"other/run.sh", "web/a/b/c.txt", "web/config.yaml"} // web/run.sh is deleted
			if diff := cmp.Diff(want, r.Executables(r.Ref(fmt.Sprintf("refs/tags/web/v%d", e.Number)))); diff != "" {
				t.Errorf("v%d: executable files (-want +got):\n%s", e.Number, diff)
			}
		}
	})
}

func filesOf(r *testgit.Repository, hash string) map[string]string {
	_, _, files := r.Show(hash)
	return files
}

// TestExportLeavesTheBranch: an export replaces what the hub has exported or imported, and nothing
// of anybody else. Then the revision has its tag, and the branch stays.
func TestExportLeavesTheBranch(t *testing.T) {
	const image = "web/img/logo.png"
	for name, tc := range map[string]struct {
		change  func(r *testgit.Repository)
		replace bool
		held    bool
		want    []string // files of web on the branch
	}{
		"Unchanged": {func(*testgit.Repository) {}, false, false, []string{"web/Kptfile", "web/a/b/c.txt", "web/config.yaml"}},
		"Elsewhere": {func(r *testgit.Repository) { r.Files["other/main.go"] = "x" }, false, false, []string{"web/Kptfile", "web/a/b/c.txt", "web/config.yaml"}},
		"Edited":    {func(r *testgit.Repository) { r.Files["web/config.yaml"] = "text: mine\n" }, false, true, []string{"web/Kptfile", "web/a/b/c.txt", "web/config.yaml"}},
		"Added":     {func(r *testgit.Repository) { r.Files["web/new.yaml"] = "text: mine\n" }, false, true, []string{"web/Kptfile", "web/a/b/c.txt", "web/config.yaml", "web/new.yaml"}},
		"Removed": {func(r *testgit.Repository) {
			maps.DeleteFunc(r.Files, func(name, _ string) bool { return strings.HasPrefix(name, "web/") })
			r.Files["other.txt"] = "x"
		}, false, true, []string{}},
		"TheSame": {func(r *testgit.Repository) {
			for name, content := range exportOf("web", 2, "two").Files {
				r.Files["web/"+name] = content
			}
		}, false, false, []string{"web/Kptfile", "web/a/b/c.txt", "web/config.yaml"}},
		"Replaced": {func(r *testgit.Repository) {
			r.Files["web/config.yaml"], r.Files["web/new.yaml"], r.Files[image] = "text: mine\n", "text: mine\n", "\x89PNG\x00"
		}, true, false, []string{"web/Kptfile", "web/a/b/c.txt", "web/config.yaml", image}},
	} {
		t.Run(name, func(t *testing.T) {
			eachAccess(t, func(t *testing.T, r *testgit.Repository, a access) {
				r.Package("other", "x")
				r.Commit("main", "base")
				first := export(t, options(a), exportOf("web", 1, "one"))[0]
				if first.Problem != "" || first.BranchChanged != "" {
					t.Fatalf("%+v", first)
				}
				r.Files = filesOf(r, r.Ref("refs/heads/main"))
				tc.change(r)
				head := r.CommitOn("main", "somebody else", r.Ref("refs/heads/main"))
				second := exportOf("web", 2, "two")
				second.Known = []remote.Ref{first.Ref}
				if tc.replace {
					second.Replace = head
				}
				got := export(t, options(a), second)[0]
				if got.Problem != "" || (got.BranchChanged == head) != tc.held || (got.BranchChanged != "") != tc.held {
					t.Errorf("result %+v, the branch was at %s", got, head)
				}
				if (r.Ref("refs/heads/main") == head) != (tc.held || name == "TheSame") {
					t.Errorf("the branch went from %s to %s", head, r.Ref("refs/heads/main"))
				}
				files := filesOf(r, r.Ref("refs/heads/main"))
				web := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool { return !strings.HasPrefix(name, "web/") })
				if diff := cmp.Diff(tc.want, web); diff != "" {
					t.Errorf("files on the branch (-want +got):\n%s", diff)
				}
				if content := filesOf(r, r.Ref("refs/tags/web/v2"))["web/config.yaml"]; content != "text: \"two\"\n" {
					t.Errorf("the tag has %q", content)
				}
				if !tc.held {
					return
				}
				// A user gives up what the branch has. The tag stays where it is.
				tag := r.Ref("refs/tags/web/v2")
				second.Replace = head
				if again := export(t, options(a), second)[0]; again.Problem != "" || again.BranchChanged != "" {
					t.Errorf("again: %+v", again)
				}
				if content := filesOf(r, r.Ref("refs/heads/main"))["web/config.yaml"]; content != "text: \"two\"\n" || r.Ref("refs/tags/web/v2") != tag {
					t.Errorf("the branch has %q, the tag is at %s", content, r.Ref("refs/tags/web/v2"))
				}
			})
		})
	}
}

func TestExportToEmptyRepository(t *testing.T) {
	eachAccess(t, func(t *testing.T, r *testgit.Repository, a access) {
		if a.server != nil && a.server.Packs.Load() == 0 && strings.HasPrefix(t.Name(), "TestExportToEmptyRepository/Plain") {
			t.Skip("the plain server does not take pushes into nothing")
		}
		results := export(t, options(a), exportOf("web", 1, "one"))
		if results[0].Problem != "" || r.Ref("refs/tags/web/v1") != r.Ref("refs/heads/main") || r.Ref("refs/heads/main") == "" {
			t.Errorf("result %+v, references %v", results[0], r.Refs())
		}
	})
}

func TestExportCreatesBranch(t *testing.T) {
	eachAccess(t, func(t *testing.T, r *testgit.Repository, a access) {
		r.Package("web", "x")
		base := r.Commit("main", "x")
		o := options(a)
		o.Branch = "packages"
		repo, err := git.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer repo.Close()
		if _, err := repo.List(t.Context()); remote.KindOf(err) != remote.NotFound {
			t.Errorf("a branch that is missing: %v", err)
		}
		o.CreateBranch = true
		if results := export(t, o, exportOf("db", 1, "one")); results[0].Problem != "" || r.Ref("refs/heads/packages") == "" {
			t.Errorf("result %+v, references %v", results[0], r.Refs())
		}
		if r.Ref("refs/heads/main") != base {
			t.Error("the other branch moved")
		}
	})
}

// TestRefusedBranch: a tag says that its revision is on the branch. So there is none if the branch
// was refused, also without atomic pushes.
func TestRefusedBranch(t *testing.T) {
	for name, serve := range map[string]func(testing.TB) *testgit.Server{"Atomic": testgit.Serve, "NotAtomic": testgit.ServeOld} {
		t.Run(name, func(t *testing.T) {
			r, s := testgit.New(t), serve(t)
			r.Package("other", "x")
			base := r.Commit("main", "base")
			repo, _ := open(t, options(access{url: s.URL(r)}))
			r.Hook("update", `[ "$1" != refs/heads/main ]`)
			if _, err := repo.Export(t.Context(), []remote.Export{exportOf("web", 1, "one"), exportOf("web", 2, "two")}); err == nil {
				t.Error("the branch is protected")
			}
			if r.Ref("refs/tags/web/v1") != "" || r.Ref("refs/heads/main") != base {
				t.Errorf("references %v", r.Refs())
			}
			// A tag is refused: what the branch has is not written again.
			r.Hook("update", `[ "$1" != refs/tags/web/v2 ]`)
			repo, _ = open(t, options(access{url: s.URL(r)}))
			if _, err := repo.Export(t.Context(), []remote.Export{exportOf("web", 1, "one"), exportOf("web", 2, "two")}); err == nil {
				t.Error("the tag is protected")
			}
			head := r.Ref("refs/heads/main")
			if (head == base) != (name == "Atomic") || (r.Ref("refs/tags/web/v1") == "") != (name == "Atomic") {
				t.Errorf("references %v", r.Refs())
			}
			r.Hook("update", "true")
			results := export(t, options(access{url: s.URL(r)}), exportOf("web", 1, "one"), exportOf("web", 2, "two"))
			if results[0].Problem != "" || results[1].Problem != "" || results[1].BranchChanged != "" {
				t.Errorf("%+v", results)
			}
			if name == "NotAtomic" && r.Ref("refs/heads/main") != head {
				t.Error("the branch moved again")
			}
			if filesOf(r, r.Ref("refs/heads/main"))["web/config.yaml"] != "text: \"two\"\n" || filesOf(r, r.Ref("refs/tags/web/v2"))["web/config.yaml"] != "text: \"two\"\n" {
				t.Errorf("references %v", r.Refs())
			}
		})
	}
}

// TestRootPackage: a repository whose root, or whose directory, is one package.
func TestRootPackage(t *testing.T) {
	for _, dir := range []string{"", "infra/app"} {
		t.Run("Directory:"+dir, func(t *testing.T) {
			eachAccess(t, func(t *testing.T, r *testgit.Repository, a access) {
				o := options(a)
				o.Directory, o.RootPackage = dir, "app"
				in, tag := "", "v"
				if dir != "" {
					in, tag = dir+"/", dir+"/v"
					r.Files["README.md"] = "of the repository"
				}
				r.Files[in+"Kptfile"] = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\n"
				r.Files[in+"config.yaml"] = "text: \"one\"\n"
				r.Files[in+"sub/Kptfile"] = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: sub\n"
				r.Files[in+"rules/a:b.yaml"] = "text: colon\n"
				r.Tag(tag+"1", r.Commit("main", "one"))
				r.Tag("other/v1", r.Ref("refs/heads/main"))
				repo, listing := open(t, o)
				if diff := cmp.Diff([]string{"app main -1 one", "app v1 1 one"}, texts(loaded(t, repo, append([]remote.Ref{*listing.Branch}, listing.Tags...)))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				second := exportOf("app", 2, "two")
				second.Known = listing.Tags
				done := export(t, o, second, exportOf("else", 1, "x"))
				if done[0].Problem != "" || done[0].Ref.Name != tag+"2" || done[0].Directory != dir || done[0].BranchChanged != "" || !strings.Contains(done[1].Problem, "rootPackage") {
					t.Errorf("%+v", done)
				}
				files := filesOf(r, r.Ref("refs/heads/main"))
				want := []string{in + "Kptfile", in + "a/b/c.txt", in + "config.yaml"}
				if dir != "" {
					want = append([]string{"README.md"}, want...)
				}
				if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" || files[in+"config.yaml"] != "text: \"two\"\n" {
					t.Errorf("%v, files (-want +got):\n%s", files, diff)
				}
				repo, listing = open(t, o)
				if diff := cmp.Diff([]string{"app main -1 two", "app v1 1 one", "app ws2 2 two"}, texts(loaded(t, repo, append([]remote.Ref{*listing.Branch}, listing.Tags...)))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func texts(revisions []remote.Revision) []string {
	var all []string
	for _, revision := range revisions {
		text, _, _ := strings.Cut(strings.TrimPrefix(revision.Files["config.yaml"], "text: \""), "\"")
		all = append(all, fmt.Sprintf("%s %s %d %s%s", revision.Package, revision.Workspace, revision.Number, text, revision.Problem))
	}
	slices.Sort(all)
	return all
}

// TestTagAlone: a tag with the content of a revision, which somebody wrote, is no export: the
// branch gets the revision, too.
func TestTagAlone(t *testing.T) {
	eachAccess(t, func(t *testing.T, r *testgit.Repository, a access) {
		r.Package("other", "x")
		base := r.Commit("main", "base")
		first := export(t, options(a), exportOf("web", 1, "one"))[0]
		r.SetRef("refs/heads/main", base)
		again := export(t, options(a), exportOf("web", 1, "one"))[0]
		if again.Ref.ID != first.Ref.ID || again.Problem != "" || filesOf(r, r.Ref("refs/heads/main"))["web/config.yaml"] != "text: \"one\"\n" {
			t.Errorf("%+v, branch at %s", again, r.Ref("refs/heads/main"))
		}
	})
}

// TestLostReferences: a tag or branch that somebody deleted is created where it was, as long as the
// repository has the commit, and nothing else moves.
func TestLostReferences(t *testing.T) {
	eachAccess(t, func(t *testing.T, r *testgit.Repository, a access) {
		r.Package("other", "x")
		r.Commit("main", "base")
		r.SetRef("refs/heads/beside", r.Ref("refs/heads/main"))
		first, second := exportOf("web", 1, "one"), exportOf("web", 2, "two")
		exported := export(t, options(a), first, second)
		head := r.Ref("refs/heads/main")
		r.SetRef("refs/tags/web/v1", "")
		first.Commit, second.Commit = exported[0].Ref.ID, exported[1].Ref.ID
		again := export(t, options(a), first, second)
		if again[0].Ref != exported[0].Ref || again[1].Ref != exported[1].Ref || again[0].Directory != "web" || again[0].Problem != "" {
			t.Errorf("%+v, want %+v", again, exported)
		}
		if r.Ref("refs/tags/web/v1") != exported[0].Ref.ID || r.Ref("refs/heads/main") != head {
			t.Errorf("tag at %s, branch from %s to %s", r.Ref("refs/tags/web/v1"), head, r.Ref("refs/heads/main"))
		}

		r.SetRef("refs/heads/main", "")
		o := options(a)
		o.CreateBranch = true
		repo, listing := open(t, o)
		if listing.Branch != nil || listing.Empty {
			t.Fatalf("%+v", listing)
		}
		if err := repo.CreateBranch(t.Context(), head); err != nil {
			t.Fatal(err)
		}
		if r.Ref("refs/heads/main") != head {
			t.Errorf("the branch is at %s, want %s", r.Ref("refs/heads/main"), head)
		}
	})
}

// TestLostCommits: what the repository no longer has is never referred to. The revision gets a new
// commit.
func TestLostCommits(t *testing.T) {
	test := func(t *testing.T, r *testgit.Repository, a access) {
		t.Helper()
		r.Package("other", "x")
		base := r.Commit("main", "base")
		first := exportOf("web", 1, "one")
		exported := export(t, options(a), first)[0]
		r.SetRef("refs/tags/web/v1", "")
		r.SetRef("refs/heads/main", base)
		if out, err := exec.CommandContext(t.Context(), "git", "-C", r.Dir, "-c", "safe.directory=*", "gc", "-q", "--prune=now").CombinedOutput(); err != nil {
			t.Fatalf("git gc: %v: %s", err, out)
		}
		repo, _ := open(t, options(a))
		if err := repo.CreateBranch(t.Context(), exported.Ref.ID); err == nil {
			t.Error("a branch was created at a commit that is gone")
		}
		r.Package("db", "y")
		head := r.CommitOn("main", "by hand", base)
		first.Commit = exported.Ref.ID
		again := export(t, options(a), first)[0]
		if again.Problem != "" || again.Ref.ID == exported.Ref.ID || r.Ref("refs/tags/web/v1") != again.Ref.ID {
			t.Errorf("%+v", again)
		}
		if _, parents, files := r.Show(again.Ref.ID); !slices.Equal(parents, []string{head}) || files["web/config.yaml"] != "text: \"one\"\n" {
			t.Errorf("parents %v, files %v", parents, files)
		}
	}
	t.Run("File", func(t *testing.T) {
		r := testgit.New(t)
		test(t, r, access{url: r.URL()})
	})
	t.Run("HTTP", func(t *testing.T) {
		r, s := testgit.New(t), testgit.Serve(t)
		test(t, r, access{url: s.URL(r), server: s})
	})
}

// Of two exports from the same state, one must fail, and neither may undo the other.
func TestConcurrentExports(t *testing.T) {
	r, s := testgit.New(t), testgit.Serve(t)
	r.Package("web", "x")
	r.Commit("main", "x")
	o := options(access{url: s.URL(r)})
	one, _ := open(t, o)
	two, _ := open(t, o)
	if _, err := one.Export(t.Context(), []remote.Export{exportOf("a", 1, "a")}); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Export(t.Context(), []remote.Export{exportOf("b", 1, "b")}); err == nil {
		t.Error("a branch that had moved was moved again")
	}
	if diff := cmp.Diff([]string{"refs/heads/main", "refs/tags/a/v1"}, r.Refs()); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
	export(t, o, exportOf("b", 1, "b"))
	_, _, files := r.Show(r.Ref("refs/heads/main"))
	if files["a/config.yaml"] == "" || files["b/config.yaml"] == "" {
		t.Errorf("files %v", slices.Sorted(maps.Keys(files)))
	}
}

func TestLimits(t *testing.T) {
	noise := func(n int) string { // does not compress
		rnd, raw := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
		for i := range raw {
			raw[i] = byte(rnd.Uint32())
		}
		return base64.StdEncoding.EncodeToString(raw)
	}
	for name, tc := range map[string]struct {
		fill    func(*testgit.Repository)
		limit   func(*remote.Limits)
		wantErr string
	}{
		"Bytes":    {func(r *testgit.Repository) { r.Files["x"] = noise(1 << 20) }, func(l *remote.Limits) { l.Bytes = 256 << 10 }, "sends more than the limit of 0 MiB"},
		"Unpacked": {func(r *testgit.Repository) { r.Files["x"] = strings.Repeat("x", 4<<20) }, func(l *remote.Limits) { l.Unpacked = 1 << 20 }, "larger than 1 MiB when unpacked"},
		"Object":   {func(r *testgit.Repository) { r.Files["x"] = strings.Repeat("x", 5<<20) }, func(l *remote.Limits) { l.Object = 1 << 20 }, "a file of 5 MiB, but the limit is 1 MiB"},
		"Packages": {func(r *testgit.Repository) { r.Package("a", "a"); r.Package("b", "b") }, func(l *remote.Limits) { l.Packages = 1 }, "more than 1 packages"},
		"Refs": {func(r *testgit.Repository) {
			commit := r.Commit("main", "x")
			for i := range 5 {
				r.Tag(fmt.Sprintf("a/v%d", i+1), commit)
			}
		}, func(l *remote.Limits) { l.Refs = 3 }, "references"},
	} {
		for server, serve := range map[string]func(testing.TB) *testgit.Server{"Git": testgit.Serve, "Plain": testgit.ServePlain} {
			t.Run(name+server, func(t *testing.T) {
				r, s := testgit.New(t), serve(t)
				r.Package("web", "x")
				tc.fill(r)
				r.Commit("main", "x")
				o := options(access{url: s.URL(r)})
				tc.limit(&o.Limits)
				o.TempDir = t.TempDir()
				repo, err := git.Open(o)
				if err != nil {
					t.Fatal(err)
				}
				defer repo.Close()
				listing, err := repo.List(t.Context())
				if err == nil {
					err = repo.Load(t.Context(), []remote.Ref{*listing.Branch}, func(remote.Revision) error { return nil })
				}
				if remote.KindOf(err) != remote.TooLarge || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("got %v, want TooLarge with %q", err, tc.wantErr)
				}
				if left, _ := filepath.Glob(o.TempDir + "/*"); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		}
	}
}

func TestTimeout(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer server.Close()
	defer close(hang)
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	k := newKeys(t)
	for name, a := range map[string]access{
		"HTTP": {url: server.URL + "/r"}, "SSH": {url: "ssh://git@" + silent.Addr().String() + "/r", secret: k.secret(silent.Addr().String())},
	} {
		o := options(a)
		o.Limits.Timeout = 50 * time.Millisecond
		repo, err := git.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = repo.List(t.Context())
		if remote.KindOf(err) != remote.Unreachable {
			t.Errorf("%s: %v", name, err)
		}
		repo.Close()
	}
}

func TestAuthorization(t *testing.T) {
	r, s := testgit.New(t), testgit.Serve(t)
	r.Package("web", "x")
	r.Commit("main", "x")
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:hunter2"))
	for name, tc := range map[string]struct {
		want   string
		secret map[string][]byte
		kind   remote.Kind
	}{
		"NoneWanted":  {"", nil, ""},
		"NoneGiven":   {basic, nil, remote.Unauthorized},
		"Basic":       {basic, map[string][]byte{"username": []byte("me"), "password": []byte("hunter2")}, ""},
		"Wrong":       {basic, map[string][]byte{"username": []byte("me"), "password": []byte("hunter3")}, remote.Unauthorized},
		"Token":       {"Bearer hunter2", map[string][]byte{"token": []byte("hunter2")}, ""},
		"PorchsToken": {"Bearer hunter2", map[string][]byte{"bearerToken": []byte("hunter2")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.Authorization.Store(tc.want)
			repo, err := git.Open(options(access{url: s.URL(r), secret: tc.secret}))
			if err != nil {
				t.Fatal(err)
			}
			defer repo.Close()
			_, err = repo.List(t.Context())
			if (tc.kind == "") != (err == nil) || (err != nil && remote.KindOf(err) != tc.kind) {
				t.Errorf("got %v, want %q", err, tc.kind)
			}
			if err != nil && strings.Contains(err.Error(), "hunter") {
				t.Errorf("the error contains the Secret: %v", err)
			}
		})
	}
}

func TestCertificates(t *testing.T) {
	r, s := testgit.New(t), testgit.ServeTLS(t)
	r.Package("web", "x")
	r.Commit("main", "x")
	ca, basic := testgit.CA(s.Server), "Basic "+base64.StdEncoding.EncodeToString([]byte("me:hunter2"))
	s.Authorization.Store(basic)
	elsewhere := strings.Replace(s.URL(r), "127.0.0.1", "localhost", 1)
	for name, tc := range map[string]struct {
		url    string
		secret map[string][]byte
		want   string // part of the error
	}{
		"None":      {s.URL(r), nil, "to the Secret as ca.crt"},
		"Other":     {s.URL(r), map[string][]byte{"ca.crt": []byte(testgit.OtherCA(t))}, "the certificate of the server is not trusted"},
		"OtherName": {elsewhere, map[string][]byte{"ca.crt": []byte(ca)}, "not localhost; use a host name of the certificate"},
		"NoLogin":   {s.URL(r), map[string][]byte{"ca.crt": []byte(ca)}, "does not accept the credentials"},
		"NoPEM":     {s.URL(r), map[string][]byte{"ca.crt": []byte("hunter2")}, "has no certificate in PEM"},
		"Right":     {s.URL(r), map[string][]byte{"ca.crt": []byte(ca), "username": []byte("me"), "password": []byte("hunter2")}, ""},
		"Bundle":    {s.URL(r), map[string][]byte{"ca.crt": []byte(testgit.OtherCA(t) + ca), "username": []byte("me"), "password": []byte("hunter2")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			repo, err := git.Open(options(access{url: tc.url, secret: tc.secret}))
			if err == nil {
				defer repo.Close()
				_, err = repo.List(t.Context())
			}
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			kind := remote.Unauthorized
			if name == "NoPEM" {
				kind = remote.SecretNotFound
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter") || remote.KindOf(err) != kind {
				t.Errorf("got %v (%s), want %q", err, remote.KindOf(err), tc.want)
			}
		})
	}
}

func TestSSHKeys(t *testing.T) {
	r := testgit.New(t)
	r.Package("web", "x")
	r.Commit("main", "x")
	right, wrong := newKeys(t), newKeys(t)
	server := testgit.ServeSSH(t, right.host, right.user.PublicKey())
	url := "ssh://git@" + server + r.Dir
	for name, tc := range map[string]struct {
		secret  map[string][]byte
		wantErr string
		kind    remote.Kind
	}{
		"NoSecret":      {nil, "has no key known_hosts", remote.SecretNotFound},
		"NoKey":         {map[string][]byte{"known_hosts": right.secret(server)["known_hosts"]}, "has no key ssh-privatekey", remote.SecretNotFound},
		"NoKnownHosts":  {map[string][]byte{"ssh-privatekey": right.private}, "has no key known_hosts", remote.SecretNotFound},
		"BrokenKey":     {map[string][]byte{"ssh-privatekey": []byte("hunter2"), "known_hosts": right.secret(server)["known_hosts"]}, "is invalid", remote.SecretNotFound},
		"UnknownUser":   {map[string][]byte{"ssh-privatekey": wrong.private, "known_hosts": right.secret(server)["known_hosts"]}, "does not accept the credentials", remote.Unauthorized},
		"OtherHostKey":  {map[string][]byte{"ssh-privatekey": right.private, "known_hosts": wrong.secret(server)["known_hosts"]}, "differs from the one in", remote.Unauthorized},
		"UnnamedServer": {right.secret("other.example:22"), "has no host key of", remote.Unauthorized},
		"Right":         {right.secret(server), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			repo, err := git.Open(options(access{url: url, secret: tc.secret}))
			if err == nil {
				defer repo.Close()
				_, err = repo.List(t.Context())
			}
			if tc.wantErr == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.wantErr) || remote.KindOf(err) != tc.kind || strings.Contains(err.Error(), "hunter") {
				t.Errorf("got %v, want %s with %q", err, tc.kind, tc.wantErr)
			}
		})
	}
	t.Run("NoRepository", func(t *testing.T) {
		repo, err := git.Open(options(access{url: url + "/none", secret: right.secret(server)}))
		if err != nil {
			t.Fatal(err)
		}
		defer repo.Close()
		if _, err = repo.List(t.Context()); remote.KindOf(err) != remote.NotFound {
			t.Errorf("got %v", err)
		}
	})
}

func TestAddress(t *testing.T) {
	r := testgit.New(t)
	for name, tc := range map[string]struct {
		repo  string
		roots []string
		want  remote.Kind
	}{
		"HTTPNotLoopback":  {"http://git.example/r", nil, remote.InvalidSpec},
		"HTTPInsecure":     {"http://git.example/r#insecure", nil, ""},
		"FileNotAllowed":   {r.URL(), nil, remote.InvalidSpec},
		"FileElsewhere":    {r.URL(), []string{"/srv/git"}, remote.InvalidSpec},
		"FileClimbs":       {"file:///srv/git/../.." + r.Dir, []string{"/srv/git"}, remote.InvalidSpec},
		"FileOfHost":       {"file://host" + r.Dir, []string{"/"}, remote.InvalidSpec},
		"FileAllowed":      {r.URL(), []string{filepath.Dir(r.Dir)}, ""},
		"FileMissing":      {r.URL() + "/none", []string{"/"}, remote.NotFound},
		"Query":            {"https://host/r?x=y", nil, remote.InvalidSpec},
		"OtherScheme":      {"ftp://host/r", nil, remote.InvalidSpec},
		"NoHost":           {"https:///r", nil, remote.InvalidSpec},
		"PlainPath":        {r.Dir, []string{"/"}, remote.InvalidSpec},
		"HTTPSIsNotAsked":  {"https://git.example/r", nil, ""},
		"SCPWithoutSecret": {"git@host:r", nil, remote.SecretNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			address, insecure := strings.CutSuffix(tc.repo, "#insecure")
			repo, err := git.Open(git.Options{Repo: address, Insecure: insecure, FileRoots: tc.roots, Limits: remote.DefaultLimits()})
			if err == nil {
				repo.Close()
			}
			if (tc.want == "") != (err == nil) || (err != nil && remote.KindOf(err) != tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestMisbehavingServers(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other host was asked") }))
	defer other.Close()
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    remote.Kind
	}{
		"Redirects": {func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, other.URL+q.URL.Path, http.StatusFound)
		}, remote.InvalidSpec},
		"NotFound":  {http.NotFound, remote.NotFound},
		"Forbidden": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, remote.Unauthorized},
		"Website":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>\n") }, remote.Other},
		"Endless": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "001e# service=git-upload-pack\n0000")
			line := strings.Repeat("1", 40) + " HEAD\x00\n"
			fmt.Fprintf(w, "%04x%s", len(line)+4, line)
			for i := 0; ; i++ {
				line := fmt.Sprintf("%s refs/tags/%d\n", strings.Repeat("1", 40), i)
				if _, err := fmt.Fprintf(w, "%04x%s", len(line)+4, line); err != nil {
					return
				}
			}
		}, remote.TooLarge},
		"EndlessError": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			for {
				if _, err := fmt.Fprint(w, strings.Repeat("x", 1<<10)); err != nil {
					return
				}
			}
		}, remote.Other},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.handler)
			defer server.Close()
			o := options(access{url: server.URL + "/r", secret: map[string][]byte{"token": []byte("hunter2")}})
			o.Limits.Bytes = 1 << 20
			repo, err := git.Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer repo.Close()
			_, err = repo.List(t.Context())
			if err == nil || remote.KindOf(err) != tc.want || len(err.Error()) > 1000 {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	t.Run("Nobody", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		repo, err := git.Open(options(access{url: server.URL + "/r"}))
		if err != nil {
			t.Fatal(err)
		}
		defer repo.Close()
		if _, err = repo.List(t.Context()); remote.KindOf(err) != remote.Unreachable {
			t.Errorf("got %v", err)
		}
	})
}

func TestLoadEndsWithItsContext(t *testing.T) {
	r := testgit.New(t)
	r.Package("web", "x")
	r.Commit("main", "x")
	repo, listing := open(t, options(access{url: r.URL()}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := repo.Load(ctx, []remote.Ref{*listing.Branch}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCheckedOutBranchIsNotWritten(t *testing.T) {
	r := testgit.New(t)
	r.Package("web", "x")
	r.Commit("main", "x")
	worktree := t.TempDir()
	if err := linkGit(r.Dir, worktree); err != nil {
		t.Fatal(err)
	}
	repo, _ := open(t, options(access{url: "file://" + worktree}))
	_, err := repo.Export(t.Context(), []remote.Export{exportOf("db", 1, "x")})
	if remote.KindOf(err) != remote.InvalidSpec || !strings.Contains(fmt.Sprint(err), "checked out") {
		t.Errorf("got %v", err)
	}
}
