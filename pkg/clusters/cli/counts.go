package cli

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	coreplan "github.com/starlinghq/starling/pkg/core/plan"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/foresight"
	"github.com/starlinghq/starling/pkg/statusreports"
	"github.com/starlinghq/starling/pkg/works"
)

// counts has what is in the mailbox of a cluster.
type counts struct {
	// Objects are delivered. Applied of them are in the cluster, and Healthy of these work, as far
	// as they report.
	Objects int `json:"objects"`
	Applied int `json:"applied"`
	Healthy int `json:"healthy"`
}

// counter counts the objects of the clusters of an ITS. Its memory is one entry for each object.
type counter struct {
	texts    *works.Manifests
	excluded corestatus.Excluded
	// applied has the objects of each cluster, and whether they are applied.
	applied map[string]map[objref.Ref]bool
	// reported has what clusters report.
	reported map[string]map[objref.Ref]reported
}

// reported is what a cluster reports of an object: that it works there, or that it is gone.
type reported struct{ healthy, gone bool }

// texts is how many manifests are parsed once.
const texts = 4096

func newCounter() *counter {
	excluded, _ := corestatus.ParseExcluded(corestatus.DefaultExcludeKinds()) // a test parses them
	return &counter{
		texts: works.NewManifests(texts), excluded: excluded,
		applied: map[string]map[objref.Ref]bool{}, reported: map[string]map[objref.Ref]reported{},
	}
}

func (c *counter) addWork(work *workv1.ManifestWork) {
	if work.DeletionTimestamp != nil {
		return
	}
	items := works.Read(work, c.texts).Items
	for i := range items {
		item := &items[i]
		if item.Observe {
			continue // a claim, or withdrawn
		}
		of := c.applied[work.Namespace]
		if of == nil {
			of = map[objref.Ref]bool{}
			c.applied[work.Namespace] = of
		}
		of[item.Ref] = of[item.Ref] || item.State == coreplan.Applied // one that moves is in two works
	}
}

func (c *counter) addReport(ws *controlv1alpha1.WorkStatus) {
	source := &ws.Spec.SourceRef
	ref := objref.Ref{Group: source.Group, Resource: source.Resource, Namespace: source.Namespace, Name: source.Name}
	report, err := statusreports.Read(ws)
	if err != nil || ws.Name != corestatus.ReportName(ref) { // it was written by somebody else
		return
	}
	of := c.reported[ws.Namespace]
	if of == nil {
		of = map[objref.Ref]reported{}
		c.reported[ws.Namespace] = of
	}
	verdict := health.Evaluate(schema.GroupKind{Group: source.Group, Kind: source.Kind}, report.Status, report.Generation)
	of[ref] = reported{healthy: verdict.State == health.Healthy, gone: report.Gone}
}

// of returns the counts of a cluster.
func (c *counter) of(cluster string) *counts {
	n := &counts{}
	for ref, applied := range c.applied[cluster] {
		n.Objects++
		report := c.reported[cluster][ref]
		if !applied || report.gone {
			continue
		}
		n.Applied++
		if report.healthy || !c.excluded.Reports(ref.GroupResource()) {
			n.Healthy++
		}
	}
	return n
}

// count reads the works and reports of clusters of an ITS: of one mailbox, or of all with "".
// unread is why they are not known, "" if they are.
func (c *counter) count(ctx context.Context, h *foresight.ITS, mailbox string) (unread string, err error) {
	options := metav1.ListOptions{LabelSelector: controlv1alpha1.LabelWDSUID}
	err = client.EachItem(ctx, h.Works.ManifestWorks(mailbox).List, options, func(work *workv1.ManifestWork) error {
		c.addWork(work)
		return nil
	})
	if apierrors.IsForbidden(err) {
		return "you may not list ManifestWorks", nil
	}
	if err != nil {
		return "", fmt.Errorf("list the works of ITS %q: %w", h.Name, err)
	}
	if mailbox == "" {
		_, err = h.Starling.ListWorkStatuses(ctx, metav1.ListOptions{}, c.addReport)
	} else {
		var list *controlv1alpha1.WorkStatusList
		if list, err = h.Starling.WorkStatuses(mailbox).List(ctx, metav1.ListOptions{}); err == nil {
			for i := range list.Items {
				c.addReport(&list.Items[i])
			}
		}
	}
	if apierrors.IsNotFound(err) { // the status add-on is not installed
		return "", nil
	}
	if apierrors.IsForbidden(err) {
		return "you may not list WorkStatuses", nil
	}
	return "", err
}
