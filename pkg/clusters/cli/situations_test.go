package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/core/foresight"
	read "github.com/starlinghq/starling/pkg/foresight"
	"github.com/starlinghq/starling/test/golden"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// someLoad is what two Bindings deliver to a cluster. One of its objects stays when it leaves.
func someLoad() *load {
	return &load{Bindings: []bound{
		{WDS: "wds1", Name: "shop", Works: 2, Objects: 10, Orphans: 1, Listed: true, Owner: "BindingPolicy shop"},
		{WDS: "wds2", Name: "web", Works: 1, Objects: 2},
	}}
}

// situations are what users read before something is done, and while they wait.
func situations() []golden.Text {
	alive := func() string { return "it is alive" }
	kept := &load{Bindings: []bound{{WDS: "wds1", Name: "shop", Works: 1, Objects: 2, Orphans: 2}}}
	manual := &load{Unread: "the current context is no WDS", Bindings: []bound{{WDS: "wds1", Name: "manual", Works: 1, Objects: 1, Listed: true}}}
	shared := someLoad()
	shared.Others = 2
	blocked := someLoad()
	blocked.Bindings[0].Why = "blocked: this change would remove every object from 6 of 10 clusters"
	gone := someLoad()
	gone.Bindings[0].Listed = false
	var texts []golden.Text
	add := func(heading string, lines ...string) {
		texts = append(texts, golden.Text{Heading: heading, Text: strings.Join(lines, "\n")})
	}
	add("drain", leaving(someLoad())...)
	add("drain: nothing is delivered", leaving(&load{})...)
	add("drain: all stays", leaving(kept)...)
	add("drain: a Binding of no policy", leaving(manual)...)
	add("drain: a removal is blocked", missingForDrain(blocked, ""))
	add("drain: a Binding lists it", missingForDrain(someLoad(), ""))
	add("drain: its agent is silent", missingForDrain(gone, "last heartbeat 3h ago"))
	add("drained", "is drained"+stays(someLoad()))
	add("deny", denial(true, false, 0, someLoad(), alive)...)
	add("deny: with requests", denial(false, false, 2, &load{}, alive)...)
	add("deny --force", denial(true, true, 1, someLoad(), alive)...)
	add("deny: not yet", missingForDenial([]string{"get manifestworks", "update manifestworks/status"}, "", someLoad(), alive))
	add("deny: rights are unknown", missingForDenial(nil, "you may not create SubjectAccessReviews", someLoad(), alive))
	add("remove", removal("edge1", false, shared)...)
	add("remove --force", removal("edge1", true, someLoad())...)
	request := joinRequest{name: "edge1-x7fk2", agent: "starling"}
	for _, tc := range []struct {
		heading string
		open    []joinRequest
		alive   bool
		agent   string
	}{
		{"one agent", []joinRequest{request}, false, ""},
		{"a request of somebody else", []joinRequest{{name: "edge1-evil", refused: `it was created by "mallory", which is neither a bootstrap identity nor the agent itself`}}, false, ""},
		{"several agents", []joinRequest{request, {name: "edge1-2", agent: "other"}}, false, ""},
		{"the agent is named", []joinRequest{request, {name: "edge1-2", agent: "other"}}, false, "other"},
		{"another agent is named", []joinRequest{request}, false, "other"},
		{"its agent is alive", []joinRequest{request}, true, ""},
		{"its agent is alive, and named", []joinRequest{request}, true, "starling"},
	} {
		cluster := &clusterv1.ManagedCluster{}
		if tc.alive {
			cluster.Spec.HubAcceptsClient = true
			cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue}}
		}
		c, err := chooseRequests(cluster, tc.open, tc.agent)
		if err != nil {
			c.lines = []string{"error: " + err.Error()}
		}
		add("accept: "+tc.heading, c.lines...)
	}
	return texts
}

// TestTable: what is not known is shown as unknown, and nothing is more than it is.
func TestTable(t *testing.T) {
	t.Parallel()
	available := foresight.Availability{Status: metav1.ConditionTrue}
	cluster := func(name string, change func(*foresight.Cluster)) row {
		c := &foresight.Cluster{
			Name: name, ITS: "its1", Accepted: true, Joined: true, Kubernetes: "v1.35.0", Created: noon.Add(-72 * time.Hour), Available: available,
			Lease: foresight.Known(&foresight.Lease{Renewed: noon.Add(-12 * time.Second), Every: time.Minute}),
			AddOn: foresight.Known(&foresight.AddOn{Available: available}),
		}
		change(c)
		links := c.Judge(noon)
		return row{Cluster: c, Links: links, State: stateOf(c, links), Counts: &counts{Objects: 4, Applied: 3, Healthy: 2}}
	}
	rows := []row{
		cluster("ready", func(c *foresight.Cluster) { c.Labels = map[string]string{"site": "edge"} }),
		cluster("asks", func(c *foresight.Cluster) {
			c.Accepted, c.Joined, c.Available, c.Lease, c.Kubernetes = false, false, foresight.Availability{}, foresight.Known[*foresight.Lease](nil), ""
		}),
		cluster("accepted", func(c *foresight.Cluster) { c.Joined = false }),
		cluster("drained", func(c *foresight.Cluster) { c.Labels = map[string]string{"starling.io/drained": "true"} }),
		cluster("leaving", func(c *foresight.Cluster) { c.Leaving = true }),
		cluster("second", func(c *foresight.Cluster) { c.NameTaken = "its2 has one" }),
		cluster("silent", func(c *foresight.Cluster) { c.Lease.Value.Renewed = noon.Add(-3 * time.Hour) }),
		cluster("broken", func(c *foresight.Cluster) { c.Available.Status = metav1.ConditionFalse }),
		cluster("mute", func(c *foresight.Cluster) { c.AddOn = foresight.Known[*foresight.AddOn](nil) }),
		cluster("denied", func(c *foresight.Cluster) { c.AddOn = foresight.Known(&foresight.AddOn{NotPermitted: "denied"}) }),
		cluster("unread", func(c *foresight.Cluster) {
			c.Lease, c.AddOn = foresight.Unread[*foresight.Lease]("you may not list Leases"), foresight.Unread[*foresight.AddOn]("you may not list ManagedClusterAddOns")
		}),
	}
	rows[len(rows)-1].Counts = nil
	var out bytes.Buffer
	if err := printRows(&out, &out, rows, []string{"what is delivered to clusters of ITS its1 is unknown: you may not list ManifestWorks"}, false, false, noon); err != nil {
		t.Fatal(err)
	}
	out.WriteString("\n")
	if err := printRows(&out, &out, rows[:1], nil, true, false, noon); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "table", out.String())
}

// TestNamed: a name stands for one cluster, or the command says which there are.
func TestNamed(t *testing.T) {
	t.Parallel()
	at := func(its, name string) *member {
		m := &member{ITS: &read.ITS{Name: its}, cluster: &clusterv1.ManagedCluster{}}
		m.cluster.Name = name
		return m
	}
	all := []*member{at("its1", "a"), at("its1", "b"), at("its2", "b")}
	for name, tc := range map[string]struct {
		names []string
		want  string
	}{
		"One":      {[]string{"a"}, "its1/a"},
		"Twice":    {[]string{"a", "its1/a"}, "its1/a"},
		"InBoth":   {[]string{"b"}, `several ITSes have a cluster "b": say which, as its1/b or its2/b`},
		"OfAnITS":  {[]string{"its2/b", "a"}, "its2/b its1/a"},
		"Nowhere":  {[]string{"c"}, `no ITS has a cluster "c": it has not asked to join. List them with: kubectl starling clusters`},
		"NotThere": {[]string{"its2/a"}, `no ITS has a cluster "its2/a": it has not asked to join. List them with: kubectl starling clusters`},
	} {
		found, err := named(all, tc.names)
		var got []string
		for _, m := range found {
			got = append(got, m.String())
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
