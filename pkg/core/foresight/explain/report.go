package explain

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/status"
)

// notReported are kinds of which no reports are expected, as agents are by default.
func notReported() status.Excluded {
	excluded, err := status.ParseExcluded(status.DefaultExcludeKinds())
	if err != nil {
		return status.Excluded{} // our own names can be parsed
	}
	return excluded
}

// isReported judges whether the cluster reports the status of the object.
func (p *passage) isReported(c *chain) {
	report, addOn := p.report(), p.addOn()
	another := p.isOfAnotherEdit(report)
	switch {
	case p.box.Reports.Unread != "":
		c.unknown(LinkReported, "what cluster "+p.cluster+" reports of "+p.Ref.String()+" is unknown: "+p.box.Reports.Unread)
	case another != "":
		what := "cluster " + p.cluster + " has reported the status of " + another + ", and not yet that of the current one"
		if addOn.State == foresight.Broken || addOn.State == foresight.Waiting {
			addOn.Text = strings.TrimSuffix(addOn.Text, ".") + ". " + strings.ToUpper(what[:1]) + what[1:]
			c.end(addOn)
			return
		}
		c.waiting(LinkReported, what)
	case report == nil && !notReported().Reports(p.Ref.GroupResource()):
		c.good(LinkReported, "objects of this kind have no status that is reported")
		c.ended = true
	case report == nil && p.work.Unread() != nil:
		sibling := p.work.Unread()
		c.broken(LinkReported, fmt.Sprintf("%s is applied, but cluster %s does not report its status: its agent cannot read %s of the same ManifestWork %s, "+
			"and until it can, neither what comes to that is recorded nor what leaves it is deleted: %s",
			p.Ref, p.cluster, sibling.Ref, p.work.Name, sibling.Refusal()), hint(sibling, p.cluster, changePackage(p.binding))...)
	case report == nil && addOn.State != foresight.Good:
		c.end(addOn)
	case report != nil:
		c.good(LinkReported, "the cluster reports its status")
	case p.Now.Sub(time.Unix(p.item.Since, 0)) < silence:
		c.waiting(LinkReported, "it is applied, and cluster "+p.cluster+" has not reported its status yet")
	default:
		c.broken(LinkReported, fmt.Sprintf("%s is applied, but cluster %s does not report its status", p.Ref, p.cluster),
			"In cluster "+p.cluster+": kubectl get pods --namespace open-cluster-management-agent-addon")
	}
}

// addOn judges the status add-on of the cluster. It is good if nothing else is known.
func (p *passage) addOn() foresight.Link {
	if p.known != nil {
		if links := p.known.Judge(p.Now); links[len(links)-1].Name == foresight.LinkAddOn {
			return links[len(links)-1]
		}
	}
	return foresight.Link{Name: foresight.LinkAddOn, State: foresight.Good}
}

// report returns what the cluster reports of the object, nil if nothing.
func (p *passage) report() *status.Report { return p.box.Reports.Value[p.Ref] }

// isOfAnotherEdit returns what a report is about if that is not the content that the WDS has now,
// "" if it is, or if that cannot be known: see EditUnknown.
func (p *passage) isOfAnotherEdit(report *status.Report) string {
	if report == nil || p.Live.Value == nil {
		return ""
	}
	if !status.IsOf(report.Source.UID, p.Live.Value.GetUID()) {
		return "a former object of the name " + p.Ref.String() + ", which was deleted"
	}
	switch wanted := p.source(); {
	case !wanted.NamesContent() || report.Source == wanted || p.item.CreateOnly, !report.Source.NamesContent() && p.item.Source == "":
		return ""
	case !report.Source.NamesContent():
		return p.Ref.String() + " without saying of which edit"
	case report.Source.Generation < wanted.Generation:
		return "an earlier generation of " + p.Ref.String()
	}
	return "another content of " + p.Ref.String()
}

// source returns which edit of the object the content is that the cluster is to get.
func (p *passage) source() status.Source {
	if p.rendered == nil {
		return status.Source{}
	}
	object, err := plan.Object{Object: *p.rendered, Known: true, Options: p.item.Options}.Ignoring()
	if err != nil {
		return status.Source{}
	}
	return object.Source
}

// EditUnknown says why it is not known of which edit the report of a cluster is, "" if it is known,
// or if there is none. What several WDSes deliver alike, or a package, does not name an object in
// the WDS, and so a report does not either.
func (o *Object) EditUnknown(cluster string) string {
	box := o.Mailboxes[cluster]
	if box == nil || !status.HasStatus(o.Ref.GroupResource()) {
		return ""
	}
	report := box.Reports.Value[o.Ref]
	if report == nil || report.Source.NamesContent() {
		return ""
	}
	for _, in := range box.of(o.Ref) {
		if in.item.CreateOnly {
			return "" // it is not updated
		}
	}
	return "cluster " + cluster + " does not say of which edit the status is that it reports, since what it has of " + o.Ref.String() +
		" does not name the object in the WDS: a package delivers it, or several WDSes deliver the same"
}

// isHealthy judges the reported status.
func (p *passage) isHealthy(c *chain) {
	report := p.report()
	verdict := health.Evaluate(schema.GroupKind{Group: p.Ref.Group, Kind: p.item.Kind}, report.Status, report.Generation)
	look := []string{"In cluster " + p.cluster + ": kubectl describe " + commandRef(p.item)}
	switch verdict.State {
	case health.Healthy:
		c.good(LinkHealthy, "healthy")
	case health.Progressing:
		c.waiting(LinkHealthy, fmt.Sprintf("%s is progressing in cluster %s: %s", p.Ref, p.cluster, verdict.Message), look...)
	case health.Unhealthy:
		c.broken(LinkHealthy, fmt.Sprintf("%s is not healthy in cluster %s: %s", p.Ref, p.cluster, verdict.Message), look...)
	}
}

// isReturned judges whether the status is in the WDS, if a policy asks for it.
func (p *passage) isReturned(c *chain) {
	if p.Live.Value == nil {
		return
	}
	singleton, all, clusters := p.asked()
	switch {
	case !status.Returnable(p.Ref.GroupResource()):
		c.good(LinkReturned, "the status of this kind is never returned")
	case !singleton && !all:
		c.good(LinkReturned, "no policy asks for its status")
	case singleton && !all && clusters != 1:
		c.broken(LinkReturned, fmt.Sprintf("the status of one cluster is asked for (wantSingletonReportedState), and %s goes to %d clusters", p.Ref, clusters),
			"Set wantMultiWECReportedState instead, or select one cluster: kubectl edit bindingpolicy "+p.asking())
	case p.Live.Value.GetLabels()[controlv1alpha1.LabelExecutingCount] == "":
		c.waiting(LinkReturned, "its status has not been returned into the WDS yet", checkBinding)
	default:
		c.good(LinkReturned, "its status in the WDS is from %s", p.Live.Value.GetLabels()[controlv1alpha1.LabelExecutingCount]+" of the clusters")
	}
}

// asked returns how the status of the object is asked for, and of how many clusters.
func (p *passage) asked() (singleton, all bool, clusters int) {
	var from []*carrier
	for _, r := range p.carriers {
		m := p.modulation(r)
		if m == nil || !m.WantSingletonReportedState && !m.WantMultiWECReportedState {
			continue
		}
		singleton, all = singleton || m.WantSingletonReportedState, all || m.WantMultiWECReportedState
		from = append(from, r)
	}
	return singleton, all, len(listedClusters(from))
}

// asking returns the name of a policy that asks for the status.
func (p *passage) asking() string {
	for _, r := range p.carriers {
		if m := p.modulation(r); m != nil && m.WantSingletonReportedState {
			return r.name
		}
	}
	return ""
}

// modulation returns how a Binding carries the object.
func (p *passage) modulation(r *carrier) *controlv1alpha1.DownsyncModulation {
	for _, b := range r.listing {
		for m := range match.Entries(&b.Spec) {
			if m.Ref == p.Ref {
				return m.Modulation
			}
		}
	}
	return nil
}
