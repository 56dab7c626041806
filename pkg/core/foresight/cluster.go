package foresight

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/starlinghq/starling/pkg/core/inventory"
)

// Cluster is what is known of a ManagedCluster.
type Cluster struct {
	Name string `json:"name"`
	// ITS is the context of the ITS that it was read from.
	ITS         string            `json:"its"`
	UID         types.UID         `json:"uid,omitempty"`
	Created     time.Time         `json:"created"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Kubernetes is the version that it reports, "" if it has not.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Accepted: the ITS accepts it. Leaving: it is being deleted.
	Accepted bool `json:"accepted"`
	Leaving  bool `json:"leaving,omitempty"`
	// NameTaken is the message of its condition NameTaken, "" if its name stands for it.
	NameTaken string `json:"nameTaken,omitempty"`
	// Joined: its agent has a certificate of the ITS.
	Joined bool `json:"joined"`
	// Available is what OCM says of its agent and API server; its status is empty if nothing.
	Available Availability `json:"available"`
	// Lease is what its agent renews in the ITS.
	Lease Fact[*Lease] `json:"lease"`
	// AddOn is its status add-on.
	AddOn Fact[*AddOn] `json:"addOn"`
}

// Availability is a condition Available.
type Availability struct {
	Status  metav1.ConditionStatus `json:"status,omitempty"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
	// Since is when the status became what it is.
	Since time.Time `json:"since"`
}

// Lease is the sign of life of an agent.
type Lease struct {
	Renewed time.Time `json:"renewed"`
	// Every is how often it is to be renewed.
	Every time.Duration `json:"every"`
}

// AddOn is the ManagedClusterAddOn of the status add-on.
type AddOn struct {
	Available Availability `json:"available"`
	// NotPermitted is the message by which the ITS denies the add-on, "" if it does not.
	NotPermitted string `json:"notPermitted,omitempty"`
}

// Names of the links of a cluster.
const (
	LinkAccepted  = "Accepted"
	LinkJoined    = "Joined"
	LinkAgent     = "Agent"
	LinkAvailable = "Available"
	LinkAddOn     = "StatusAddOn"
)

// graceLeases is the number of renewals that may be missed before OCM calls a cluster unavailable.
const graceLeases = 5

// Judge returns the links from a cluster that exists to one that reports: accepted, joined, its
// agent alive, available, and its status add-on. What comes after a link that is not good is not
// judged, with one exception: what OCM says of a cluster whose heartbeat is unknown.
func (c *Cluster) Judge(now time.Time) []Link {
	var links []Link
	for _, judge := range []func(time.Time) Link{c.judgeAccepted, c.judgeJoined, c.judgeAgent, c.judgeAvailable, c.judgeAddOn} {
		link := judge(now)
		links = append(links, link)
		if link.State != Good && (link.State != Unknown || link.Name != LinkAgent) {
			break
		}
	}
	return links
}

// Delivers reports whether objects are delivered to the cluster: it is accepted, is neither leaving
// nor drained, and its name stands for it.
func (c *Cluster) Delivers() bool {
	return c.Accepted && !c.Leaving && c.NameTaken == "" && !inventory.Drained(c.Labels)
}

func (c *Cluster) judgeAccepted(time.Time) Link {
	l := Link{Name: LinkAccepted, State: Broken}
	switch {
	case c.Leaving:
		l.Text = fmt.Sprintf("cluster %s of ITS %s is being deleted: it waits until nothing is delivered to it any more", c.Name, c.ITS)
	case !c.Accepted:
		l.Text = fmt.Sprintf("ITS %s has cluster %s and does not accept it", c.ITS, c.Name)
		l.Fix = []string{"kubectl starling cluster accept " + c.Name}
	case c.NameTaken != "":
		l.Text = fmt.Sprintf("cluster %s of ITS %s gets nothing: %s", c.Name, c.ITS, c.NameTaken)
		l.Fix = []string{"Register one of the two clusters under another name."}
	case inventory.Drained(c.Labels):
		l.Text = fmt.Sprintf("cluster %s of ITS %s is drained: nothing is delivered to it until it is undrained", c.Name, c.ITS)
		l.Fix = []string{"kubectl starling cluster undrain " + c.Name}
	default:
		l.State, l.Text = Good, fmt.Sprintf("ITS %s accepts cluster %s", c.ITS, c.Name)
	}
	return l
}

func (c *Cluster) judgeJoined(time.Time) Link {
	if c.Joined {
		return Link{Name: LinkJoined, State: Good, Text: "its agent has a certificate of the ITS"}
	}
	return Link{
		Name: LinkJoined, State: Broken,
		Text: "its agent has not joined: it has no certificate of ITS " + c.ITS + " yet",
		Fix:  []string{"kubectl starling cluster accept " + c.Name, c.there("kubectl get pods --namespace open-cluster-management-agent")},
	}
}

// there returns a command that is to run in the cluster, by whichever context the user has for it.
func (c *Cluster) there(command string) string { return "In cluster " + c.Name + ": " + command }

func (c *Cluster) judgeAgent(now time.Time) Link {
	l := Link{Name: LinkAgent, State: Unknown}
	lease := c.Lease.Value
	switch {
	case c.Lease.Unread != "":
		l.Text = "the heartbeat of its agent is unknown: " + c.Lease.Unread
		return l
	case lease == nil:
		l.State, l.Text = Waiting, "ITS "+c.ITS+" has no Lease of the cluster yet"
		return l
	}
	every := cmp.Or(lease.Every, time.Minute)
	age := now.Sub(lease.Renewed)
	l.Text = fmt.Sprintf("last heartbeat of its agent: %s ago", duration.HumanDuration(max(age, 0)))
	switch {
	case age >= graceLeases*every:
		l.State = Broken
		l.Text += ". The agent does not run, or does not reach ITS " + c.ITS + ". What is delivered waits for it"
		l.Fix = []string{
			c.there("kubectl get pods --namespace open-cluster-management-agent"),
			c.there("kubectl logs --namespace open-cluster-management-agent deployment/klusterlet-agent"),
		}
	case age >= 2*every:
		l.State = Waiting
		l.Text += fmt.Sprintf(", though there should be one each %s", duration.HumanDuration(every))
	default:
		l.State = Good
	}
	return l
}

func (c *Cluster) judgeAvailable(now time.Time) Link {
	l := Link{Name: LinkAvailable, State: Good}
	a := &c.Available
	switch a.Status {
	case metav1.ConditionTrue:
		l.Text = "available"
		if c.Kubernetes != "" {
			l.Text += ", Kubernetes " + c.Kubernetes
		}
	case metav1.ConditionFalse:
		l.State = Broken
		l.Text = fmt.Sprintf("its API server does not respond%s: %s", since(a.Since, now), cmp.Or(a.Message, a.Reason))
		l.Fix = []string{c.there("kubectl get --raw /readyz?verbose")}
	case metav1.ConditionUnknown:
		l.State = Broken
		l.Text = fmt.Sprintf("OCM does not know whether it is available%s: %s", since(a.Since, now), cmp.Or(a.Message, a.Reason))
		l.Fix = []string{c.there("kubectl get pods --namespace open-cluster-management-agent")}
	default:
		l.State, l.Text = Waiting, "its agent has not reported yet whether its API server responds"
	}
	return l
}

func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " since " + duration.HumanDuration(max(now.Sub(t), 0))
}

func (c *Cluster) judgeAddOn(now time.Time) Link {
	l := Link{Name: LinkAddOn, State: Broken}
	addOn := c.AddOn.Value
	switch {
	case c.AddOn.Unread != "":
		l.State, l.Text = Unknown, "its status add-on is unknown: "+c.AddOn.Unread
	case addOn == nil:
		l.Text = "it has no status add-on: it applies objects, and their statuses stay unknown"
		l.Fix = []string{c.install()}
	case addOn.NotPermitted != "":
		l.Text = "its status add-on is not permitted: " + addOn.NotPermitted
		l.Fix = []string{"kubectl starling cluster accept " + c.Name}
	case addOn.Available.Status == metav1.ConditionTrue:
		l.State, l.Text = Good, "its status add-on reports"
	case addOn.Available.Status == "":
		l.State, l.Text = Waiting, "its status add-on has not started yet"
	default:
		l.Text = fmt.Sprintf("its status add-on does not report%s: %s", since(addOn.Available.Since, now), cmp.Or(addOn.Available.Message, addOn.Available.Reason))
		l.Fix = []string{c.there("kubectl get pods --namespace open-cluster-management-agent-addon")}
	}
	return l
}

// install returns the command that installs the status add-on.
func (c *Cluster) install() string {
	return fmt.Sprintf(`kubectl --context %s create -f - <<< '{"apiVersion":"addon.open-cluster-management.io/v1alpha1",`+
		`"kind":"ManagedClusterAddOn","metadata":{"name":"addon-status","namespace":"%s"},"spec":{}}'`, c.ITS, c.Name)
}
