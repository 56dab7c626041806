package git_test

import (
	"fmt"
	"testing"

	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/packages/remote/git"
	"github.com/starlinghq/starling/test/testgit"
)

// Compare runs with
//
//	go test -run '^$' -bench . -count 6 ./pkg/repository/git | bin/tools/benchstat -
func BenchmarkImport(b *testing.B) {
	for _, packages := range []int{10, 100, 200, 1000} {
		r := testgit.New(b)
		for i := range packages {
			r.Package(fmt.Sprintf("group%d/package%d", i%10, i), "text")
			for j := range 10 {
				r.Files[fmt.Sprintf("group%d/package%d/object%d.yaml", i%10, i, j)] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c%d-%d\ndata:\n  a: b\n", i, j)
			}
		}
		r.Commit("main", "x")
		s := testgit.Serve(b)
		for name, url := range map[string]string{"http": s.URL(r), "file": r.URL()} {
			b.Run(fmt.Sprintf("%s/packages=%d", name, packages), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					repo, err := git.Open(git.Options{Repo: url, Branch: "main", FileRoots: []string{"/"}, Limits: remote.DefaultLimits(), TempDir: b.TempDir()})
					if err != nil {
						b.Fatal(err)
					}
					listing, err := repo.List(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					found := 0
					err = repo.Load(b.Context(), []remote.Ref{*listing.Branch}, func(revision remote.Revision) error {
						if revision.Files != nil {
							found++
						}
						return nil
					})
					if err != nil || found != packages {
						b.Fatal(found, err)
					}
					repo.Close()
				}
			})
		}
	}
}
