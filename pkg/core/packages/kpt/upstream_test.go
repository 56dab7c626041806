package kpt_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

func TestKptfileIsEdited(t *testing.T) {
	const before = `apiVersion: kpt.dev/v1
kind: Kptfile
metadata:
  name: web # the name
  labels:
    a: "1" # kept
    b: "2"
`
	lock := kpt.Upstream{Type: "git", Git: &kpt.GitUpstream{Repo: "r", Directory: "d", Ref: "d/v1", Commit: "c"}}
	edits := map[string]struct {
		edit func(k *kpt.Kptfile) error
		want string
	}{
		"Metadata": {
			func(k *kpt.Kptfile) error {
				return k.SetMetadata(map[string]string{"a": "1", "c": "true"}, map[string]string{"note": "x: y"})
			},
			`apiVersion: kpt.dev/v1
kind: Kptfile
metadata:
  name: web # the name
  labels:
    a: "1" # kept
    c: "true"
  annotations:
    note: "x: y"
`,
		},
		"MetadataStays": {
			func(k *kpt.Kptfile) error { return k.SetMetadata(map[string]string{"b": "2", "a": "1"}, nil) },
			before,
		},
		"MetadataGoes": {
			func(k *kpt.Kptfile) error { return k.SetMetadata(nil, nil) },
			`apiVersion: kpt.dev/v1
kind: Kptfile
metadata:
  name: web # the name
`,
		},
		"Info": {
			func(k *kpt.Kptfile) error {
				return k.SetInfo(kpt.Info{Site: "https://example.com", Description: "yes", Keywords: []string{"a", "on"}})
			},
			before + `info:
  site: https://example.com
  description: "yes"
  keywords:
  - a
  - "on"
`,
		},
		"NoInfo": {func(k *kpt.Kptfile) error { return k.SetInfo(kpt.Info{}) }, before},
		"Upstream": {
			func(k *kpt.Kptfile) error {
				upstream := kpt.Upstream{Type: "git", Git: &kpt.GitUpstream{Repo: "r"}, UpdateStrategy: "resource-merge"}
				if err := k.SetUpstream(upstream, lock); err != nil {
					return err
				}
				return k.SetUpstream(upstream, lock) // once more changes nothing
			},
			before + `upstream:
  type: git
  git:
    repo: r
  updateStrategy: resource-merge
upstreamLock:
  type: git
  git:
    repo: r
    directory: d
    ref: d/v1
    commit: c
`,
		},
	}
	for name, tc := range edits {
		t.Run(name, func(t *testing.T) {
			k, err := kpt.ParseKptfile(before)
			if err != nil {
				t.Fatal(err)
			}
			if err := tc.edit(k); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, k.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if name == "Upstream" {
				if diff := cmp.Diff(&lock, k.UpstreamLock()); diff != "" {
					t.Errorf("lock (-want +got):\n%s", diff)
				}
			}
			if _, err := kpt.ParseKptfile(k.String()); err != nil {
				t.Errorf("cannot be read again: %v", err)
			}
		})
	}
}
