package repositories

import (
	"fmt"
	"strings"
	"testing"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testgit"
)

// TestAcceptedTag: what a moved tag has now is imported when a user accepts it, into the same
// revision. What was approved here is never replaced by what somebody pushed.
func TestAcceptedTag(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	r, s := testgit.New(t), testgit.Serve(t)
	r.Package("web", "one")
	base := r.Commit("main", "one")
	r.Tag("web/v1", base)
	e.run(t)
	e.create(t, "up", gitSpec(s.URL(r), ""))
	e.waitForRevisions(t, "up.web.main -1 one", "up.web.v1 1 one latest")
	before := e.revisions(t)["up.web.v1"]
	e.publish(t, "up", "db", "mine", 1, "approved here")
	e.waitForRevisions(t, "up.web.main -1 one", "up.web.v1 1 one latest", "up.db.main -1 approved here", "up.db.mine 1 approved here latest")

	r.Package("web", "two")
	r.Package("db", "pushed")
	moved := r.CommitOn("beside", "moved", base)
	r.Tag("web/v1", moved)
	r.Tag("db/v1", moved)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		text := e.waitForCondition(t, "up", "Consistent", "TagsMoved")
		return strings.Contains(text, "2 tags") && strings.HasSuffix(text, "kubectl annotate repository up --namespace "+e.namespace+" --overwrite starling.io/accept-tags=web/v1@"+moved), text
	})
	// While it is back, nothing waits for anybody.
	r.Tag("web/v1", base)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		web := e.revisions(t)["up.web.v1"].External
		return web.Moved == "" && web.ID == base, fmt.Sprintf("external %+v", web)
	})
	r.Tag("web/v1", moved)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		web, db := e.revisions(t)["up.web.v1"].External, e.revisions(t)["up.db.mine"].External
		return web.Moved == moved && web.ID == base && db.Moved == "", fmt.Sprintf("external %+v, %+v", web, db)
	})
	e.quiet(t)
	e.annotate(t, "up", configv1alpha1.AcceptTagsAnnotation, "web/v1@c01dbee,web/v1@"+moved)
	e.waitForRevisions(t, "up.web.main -1 one", "up.web.v1 1 two latest", "up.db.main -1 approved here", "up.db.mine 1 approved here latest")
	after := e.revisions(t)["up.web.v1"]
	if after.UID != before.UID || after.External.Moved != "" || after.External.ID != moved || after.Status.SelfLock.Git.Commit != moved {
		t.Errorf("revision %+v", after)
	}
	if text := e.waitForCondition(t, "up", "Consistent", "TagsMoved"); !strings.Contains(text, "1 tag") || strings.Contains(text, "accept-tags") {
		t.Errorf("message %q", text)
	}
	e.quiet(t)
	e.waitForRevisions(t, "up.web.main -1 one", "up.web.v1 1 two latest", "up.db.main -1 approved here", "up.db.mine 1 approved here latest")
}
