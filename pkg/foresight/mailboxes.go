package foresight

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/statusreports"
	"github.com/starlinghq/starling/pkg/works"
)

// reading is what is read of mailboxes.
type reading struct {
	// cluster is the one mailbox that is read whole; if it is "", the works of bindings are read in
	// all mailboxes.
	cluster  string
	bindings []types.UID
	// wds is the UID of the WDS, which works of other WDSes do not have; "" if it is not known.
	wds types.UID
	// reports are the objects of which reports are read: all, if there are many.
	reports []objref.Ref
	// properties are read, too.
	properties bool
}

// mailbox is a mailbox, and the data of the ConfigMap with further properties of its cluster.
type mailbox struct {
	explain.Mailbox

	data map[string]string
}

// readMailboxes adds what is read of mailboxes in all ITSes. A mailbox counts in the ITS that has
// its cluster.
func (r *Reader) readMailboxes(ctx context.Context, f *explain.Fleet, what reading) {
	if len(r.itses) == 0 {
		return
	}
	boxes := make([]map[string]*mailbox, len(r.itses))
	rest := make([]explain.Mailbox, len(r.itses))
	var reads []func()
	for i, of := range r.itses {
		reads = append(reads, func() { boxes[i], rest[i] = of.readBoxes(ctx, r.texts, what) })
	}
	together(reads...)
	names := map[string]bool{}
	if f.Cluster != "" {
		names[f.Cluster] = true
	}
	for name := range f.Clusters.Value {
		names[name] = true
	}
	for i := range boxes {
		for name := range boxes[i] {
			names[name] = true
		}
	}
	for name := range names {
		i := 0
		if known := f.Clusters.Value[name]; known != nil {
			i = max(slices.IndexFunc(r.itses, func(of *ITS) bool { return of.Name == known.ITS }), 0)
		} else {
			i = max(slices.IndexFunc(boxes, func(in map[string]*mailbox) bool { return in[name] != nil }), 0)
		}
		box := boxes[i][name]
		if box == nil {
			box = &mailbox{}
		}
		box.Works.Unread, box.Reports.Unread, box.Properties.Unread = rest[i].Works.Unread, rest[i].Reports.Unread, rest[i].Properties.Unread
		if known := f.Clusters.Value[name]; what.properties && box.Properties.Unread == "" && known != nil {
			box.Properties.Value = clusters.Properties(name, known.Labels, known.Annotations, box.data)
		}
		f.Mailboxes[name] = &box.Mailbox
	}
}

// reportNames returns the names of the reports that are read, "" for all. The API server reads all
// WorkStatuses for each name.
func reportNames(refs []objref.Ref) []string {
	const most = 10
	if len(refs) > most {
		return []string{""}
	}
	names := make([]string, len(refs))
	for i := range refs {
		names[i] = status.ReportName(refs[i])
	}
	return names
}

// readBoxes reads from one ITS. unread has what could not be read.
func (i *ITS) readBoxes(ctx context.Context, texts *works.Manifests, what reading) (boxes map[string]*mailbox, unread explain.Mailbox) {
	boxes = map[string]*mailbox{}
	var mu sync.Mutex
	in := func(name string, do func(*mailbox)) {
		mu.Lock()
		defer mu.Unlock()
		if boxes[name] == nil {
			boxes[name] = &mailbox{}
		}
		do(boxes[name])
	}
	var reads []func()
	readWorks := func(options metav1.ListOptions) func() {
		return func() {
			err := i.eachWork(ctx, what.cluster, options, func(w *workv1.ManifestWork) {
				read := works.Read(w, texts)
				if what.wds != "" {
					read.Foreign = works.Foreign(w, what.wds)
				}
				in(w.Namespace, func(box *mailbox) { box.Works.Value = append(box.Works.Value, read) })
			})
			if err != "" {
				mu.Lock()
				defer mu.Unlock()
				unread.Works.Unread = err
			}
		}
	}
	if what.cluster != "" {
		reads = append(reads, readWorks(metav1.ListOptions{}))
	} else {
		for _, uid := range what.bindings {
			reads = append(reads, readWorks(metav1.ListOptions{LabelSelector: controlv1alpha1.LabelBindingUID + "=" + string(uid)}))
		}
	}
	for _, name := range reportNames(what.reports) {
		reads = append(reads, func() {
			err := i.eachReport(ctx, what.cluster, name, func(ws *controlv1alpha1.WorkStatus) {
				source := &ws.Spec.SourceRef
				ref := objref.Ref{Group: source.Group, Resource: source.Resource, Namespace: source.Namespace, Name: source.Name}
				report, err := statusreports.Read(ws)
				if err != nil || ws.Name != status.ReportName(ref) { // it was written by somebody else
					return
				}
				in(ws.Namespace, func(box *mailbox) {
					if box.Reports.Value == nil {
						box.Reports.Value = map[objref.Ref]*status.Report{}
					}
					box.Reports.Value[ref] = report
				})
			})
			if err != "" {
				mu.Lock()
				defer mu.Unlock()
				unread.Reports.Unread = err
			}
		})
	}
	if what.properties {
		reads = append(reads, func() {
			unread.Properties.Unread = i.eachProperties(ctx, what.cluster, func(m *corev1.ConfigMap) {
				in(m.Name, func(box *mailbox) { box.data = clusters.PropertiesIn(m) })
			})
		})
	}
	together(reads...)
	return boxes, unread
}
