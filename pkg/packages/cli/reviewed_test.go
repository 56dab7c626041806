package cli

import (
	"testing"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// TestApproveWhatWasReviewed: approve publishes the content that diff showed, or that --digest
// names, and no other.
func TestApproveWhatWasReviewed(t *testing.T) {
	const name = "edge.web.v1"
	kptfile := "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: web\n"
	files := func(text string) kpt.Files { return kpt.Files{"Kptfile": kptfile, "a.txt": text} }
	newProposal := func(t *testing.T) (s *server, edit func(text string)) {
		s = newServer(t)
		edit = func(text string) {
			s.change(name, func(r *porchv1alpha1.PackageRevision, content kpt.Files) {
				content["a.txt"] = text
				r.Status.ContentDigest = content.ContentDigest()
			})
		}
		s.add(name, porchv1alpha1.LifecycleProposed, files("one"))
		edit("one")
		return s, edit
	}
	digest := files("one").ContentDigest()

	t.Run("Digest", func(t *testing.T) {
		s, edit := newProposal(t)
		edit("two")
		wants(t, s, 1, []string{"approve", name, "--digest", digest}, []string{"its content has digest " + files("two").ContentDigest() + ", not " + digest})
		wants(t, s, 1, []string{"approve", name, "edge.db.v1", "--digest", digest}, []string{"--digest needs exactly one revision"})
		edit("one")
		wants(t, s, 0, []string{"approve", name, "--digest", digest}, []string{"approved"})
	})
	t.Run("Diff", func(t *testing.T) {
		s, edit := newProposal(t)
		s.add("edge.web.v0", porchv1alpha1.LifecyclePublished, files("zero"))
		wants(t, s, 1, []string{"diff", name, "--against", "edge.web.v0"}, []string{"one"})
		edit("two")
		wants(t, s, 1, []string{"approve", name}, []string{"its content has changed since you reviewed it: review it again with: kubectl starling package diff edge.web.v1"})
		wants(t, s, 1, []string{"diff", name, "--against", "edge.web.v0"}, []string{"two"})
		wants(t, s, 0, []string{"approve", name}, []string{"approved"})
	})
	t.Run("NotReviewed", func(t *testing.T) {
		s, edit := newProposal(t)
		edit("two")
		wants(t, s, 0, []string{"approve", name}, []string{"approved"})
	})
}

// TestProposeDeleteAgain: a second proposal changes nothing and is no error.
func TestProposeDeleteAgain(t *testing.T) {
	s := newServer(t)
	s.add("edge.web.v1", porchv1alpha1.LifecyclePublished, nil)
	for range 2 {
		wants(t, s, 0, []string{"propose-delete", "edge.web.v1"}, []string{"proposed for deletion"})
	}
}
