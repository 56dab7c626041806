package explain

import (
	"fmt"
	"slices"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Explain returns the way of a package to its cluster.
func (p *Package) Explain() *Explanation {
	e := &Explanation{Subject: fmt.Sprintf("Package %s of Repository %s", p.Name, p.Repository)}
	c := &chain{}
	c.then(p.exists, p.isPublished, p.isLatest, p.isDeployed, p.isBound)
	if !c.ended {
		c.then(held([]*controlv1alpha1.Binding{p.Binding.Value}, &Transactions{}))
	}
	e.Links = c.links
	if !c.ended {
		e.Groups = []Group{{Clusters: []string{p.Repository}, Links: p.inMailbox(p.Repository, []*controlv1alpha1.Binding{p.Binding.Value})}}
	}
	return e.finish(fmt.Sprintf("package %s is in cluster %s, applied and healthy as far as it reports", p.Name, p.Repository))
}

// revision returns the revision that is explained: the one that was asked for, or the latest, or
// the last one; nil if there is none.
func (p *Package) revision() *Revision {
	revisions := p.Revisions.Value
	i := slices.IndexFunc(revisions, func(r Revision) bool { return r.Object == p.Revision })
	if p.Revision == "" {
		if i = slices.IndexFunc(revisions, func(r Revision) bool { return r.Latest }); i < 0 {
			i = len(revisions) - 1
		}
	}
	if i < 0 {
		return nil
	}
	return &revisions[i]
}

func (p *Package) exists(c *chain) {
	switch r := p.revision(); {
	case p.Revisions.Unread != "":
		c.unknown(LinkExists, "the revisions of the package are unknown: "+p.Revisions.Unread)
	case r == nil && p.Revision != "":
		c.broken(LinkExists, "there is no PackageRevision "+p.Revision+" in namespace "+p.Namespace, "kubectl get packagerevisions --namespace "+p.Namespace)
	case r == nil:
		c.broken(LinkExists, fmt.Sprintf("Repository %s of namespace %s has no package %s", p.Repository, p.Namespace, p.Name),
			"kubectl get packagerevisions --namespace "+p.Namespace)
	default:
		c.good(LinkExists, "PackageRevision %s", r.Object)
	}
}

func (p *Package) isPublished(c *chain) {
	r := p.revision()
	flags := " " + r.Object + " --namespace " + p.Namespace
	switch {
	case r.Lifecycle == "Published" || r.Lifecycle == "DeletionProposed":
		c.good(LinkPublished, "revision %s is %s", r.Shown, r.Lifecycle)
	case len(r.Gates) > 0:
		c.broken(LinkPublished, fmt.Sprintf("%s is a %s, and cannot be published: %s", r.Object, r.Lifecycle, text.Join(r.Gates, "; ", maxNames)),
			"kubectl starling package pull"+flags, "kubectl starling package push FOLDER")
	case r.Lifecycle == "Proposed":
		c.broken(LinkPublished, r.Object+" is proposed, and was not approved yet", "kubectl starling package approve"+flags)
	default:
		c.broken(LinkPublished, r.Object+" is a draft: only published revisions are delivered", "kubectl starling package propose"+flags,
			"kubectl starling package approve"+flags)
	}
}

func (p *Package) isLatest(c *chain) {
	r := p.revision()
	i := slices.IndexFunc(p.Revisions.Value, func(r Revision) bool { return r.Latest })
	if r.Latest || i < 0 {
		c.good(LinkLatest, "it is the latest published revision")
		return
	}
	c.broken(LinkLatest, fmt.Sprintf("%s is not delivered: a later revision is published, %s", r.Object, p.Revisions.Value[i].Object),
		fmt.Sprintf("kubectl starling explain packagerevision/%s --namespace %s", p.Revisions.Value[i].Object, p.Namespace))
}

func (p *Package) isDeployed(c *chain) {
	switch {
	case !p.RepositoryExists:
		c.broken(LinkRepository, fmt.Sprintf("there is no Repository %s in namespace %s", p.Repository, p.Namespace), "kubectl get repositories.config.porch.kpt.dev -A")
	case !p.Deploys:
		c.broken(LinkRepository, fmt.Sprintf("Repository %s is no cluster repository: what is in it is not delivered, but can be cloned", p.Repository),
			fmt.Sprintf("kubectl starling package clone %s %s --repository CLUSTER --namespace %s", p.revision().Object, p.Name, p.Namespace))
	default:
		c.good(LinkRepository, "what is published in Repository %s is delivered to the cluster of this name", p.Repository)
	}
}

func (p *Package) isBound(c *chain) {
	b := p.Binding.Value
	switch {
	case p.Binding.Unread != "":
		c.unknown(LinkBound, "the Binding of the package is unknown: "+p.Binding.Unread)
	case b == nil && p.NoITS == "" && p.Clusters.Unread == "" && p.Clusters.Value[p.Repository] == nil:
		c.broken(LinkBound, "no ITS that is read has a cluster "+p.Repository+", so the package has no Binding", "kubectl starling clusters")
	case (b == nil || !listsCluster(b, p.Repository)) && p.Clusters.Value[p.Repository] != nil && !p.Clusters.Value[p.Repository].Delivers():
		c.end(p.Clusters.Value[p.Repository].Judge(p.Now)[0])
	case b == nil:
		c.waiting(LinkBound, "the package has no Binding yet", checkBinding)
	case len(b.Spec.Workload.Packages) == 0 || b.Spec.Workload.Packages[0].Name != p.revision().Object:
		c.waiting(LinkBound, fmt.Sprintf("Binding %s does not deliver %s yet", b.Name, p.revision().Object), checkBinding)
	case !listsCluster(b, p.Repository):
		c.broken(LinkBound, fmt.Sprintf("Binding %s delivers to no cluster: cluster %s no longer exists", b.Name, p.Repository), "kubectl starling clusters")
	default:
		c.good(LinkBound, "Binding %s delivers revision %s to cluster %s", b.Name, p.revision().Shown, p.Repository)
	}
}
