package explain

import (
	"fmt"

	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Explain returns how a cluster is, and what it has of its mailbox.
func (f *Cluster) Explain() *Explanation {
	e := &Explanation{Subject: "Cluster " + f.Cluster}
	c := &chain{}
	c.then(f.clusterExists, f.clusterIsWell, f.hasWorks, f.isEmptying)
	if box := f.Mailboxes[f.Cluster]; box != nil {
		c.then(f.applied(f.Cluster, box, nil))
	}
	e.Links = c.links
	return e.finish("cluster " + f.Cluster + " is available, and has applied all that is delivered to it")
}

func (f *Fleet) clusterExists(c *chain) {
	switch {
	case f.NoITS != "":
		c.unknown(LinkExists, "cluster "+f.Cluster+" is unknown: "+f.NoITS)
	case f.Clusters.Value[f.Cluster] == nil && f.Clusters.Unread != "":
		c.unknown(LinkExists, "cluster "+f.Cluster+" is unknown: "+f.Clusters.Unread)
	case f.Clusters.Value[f.Cluster] == nil:
		c.broken(LinkExists, "no ITS that is read has a cluster "+f.Cluster, "kubectl starling clusters")
	default:
		c.good(LinkExists, "it is in ITS %s", f.Clusters.Value[f.Cluster].ITS)
	}
}

func (f *Fleet) clusterIsWell(c *chain) {
	for _, l := range f.Clusters.Value[f.Cluster].Judge(f.Now) {
		c.add(l)
		// Without the add-on it applies objects nevertheless.
		c.ended = c.ended || l.Name != foresight.LinkAddOn && (l.State == foresight.Broken || l.State == foresight.Waiting)
	}
}

func (f *Fleet) hasWorks(c *chain) {
	box := f.Mailboxes[f.Cluster]
	if box == nil || box.Works.Unread != "" {
		unread := ""
		if box != nil {
			unread = ": " + box.Works.Unread
		}
		c.unknown(LinkDelivered, "what is in its mailbox is unknown"+unread)
		return
	}
	works, objects := 0, 0
	for _, work := range box.Works.Value {
		if !work.Deleting {
			works++
			objects += len(work.Items)
		}
	}
	c.good(LinkDelivered, "%s in %s", text.Count(objects, "object"), text.Count(works, "ManifestWork"))
}

// isEmptying says which works are being deleted.
func (f *Fleet) isEmptying(c *chain) {
	var names []string
	for _, work := range f.Mailboxes[f.Cluster].Works.Value {
		if work.Deleting {
			names = append(names, work.Name)
		}
	}
	if len(names) > 0 {
		c.add(foresight.Link{
			Name: LinkRemoved, State: foresight.Waiting,
			Text: fmt.Sprintf("%s being deleted: the cluster deletes the objects first: %s", text.Count(len(names), "ManifestWork is|ManifestWorks are"), text.List(names, maxNames)),
		})
	}
}
