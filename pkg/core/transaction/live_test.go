package transaction_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

const liveUID = types.UID("01234567-89ab-cdef-0123-456789abcdef")

// installedRevision is an active revision with one object, whose generation was 2.
func installedRevision(change ...func(*pkgv1.ProviderRevision)) *pkgv1.ProviderRevision {
	uid := liveUID
	r := &pkgv1.ProviderRevision{ObjectMeta: metav1.ObjectMeta{
		Name: "s3-1", UID: "r1", Annotations: map[string]string{transaction.AnnotationGenerations: transaction.Generations{liveUID: 2}.Encode()},
	}}
	r.Spec.DesiredState, r.Spec.Revision, r.Spec.CommonLabels = pkgv1.RevisionActive, 1, map[string]string{"app": "storage"}
	r.Status.ObjectRefs = []pkgv1.TypedReference{{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "buckets.example.org", UID: &uid}}
	r.Status.Conditions = []metav1.Condition{{Type: pkgv1.RevisionConditionHealthy, Status: metav1.ConditionTrue, Reason: pkgv1.ReasonHealthyPackageRevision}}
	for _, c := range change {
		c(r)
	}
	return r
}

// liveObject is the object as it was installed.
func liveObject(change ...func(*metav1.ObjectMeta)) *metav1.PartialObjectMetadata {
	controls := true
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "buckets.example.org", UID: liveUID, Generation: 2, Labels: map[string]string{"app": "storage", "more": "x"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "ProviderRevision", Name: "s3-1", UID: "r1", Controller: &controls}},
	}}
	for _, c := range change {
		c(&o.ObjectMeta)
	}
	return o
}

func found(o *metav1.PartialObjectMetadata) transaction.Lookup {
	return func(pkgv1.TypedReference) (metav1.Object, bool) {
		if o == nil {
			return nil, true
		}
		return o, true
	}
}

func notKnown(pkgv1.TypedReference) (metav1.Object, bool) { return nil, false }

func TestDeviations(t *testing.T) {
	t.Parallel()
	without := func(r *pkgv1.ProviderRevision) { r.Annotations = nil }
	for name, c := range map[string]struct {
		revision *pkgv1.ProviderRevision
		find     transaction.Lookup
		want     []string
		unknown  int
	}{
		"AsInstalled": {revision: installedRevision(), find: found(liveObject())},
		"Missing":     {revision: installedRevision(), find: found(nil), want: []string{"does not exist"}},
		"Another": {
			revision: installedRevision(), find: found(liveObject(func(m *metav1.ObjectMeta) { m.UID = "other" })),
			want: []string{"was deleted and created again"},
		},
		"Changed": {
			revision: installedRevision(), find: found(liveObject(func(m *metav1.ObjectMeta) { m.Generation = 3 })),
			want: []string{"was changed since it was installed: its generation is 3, and was 2"},
		},
		"ACacheIsBehind": {revision: installedRevision(), find: found(liveObject(func(m *metav1.ObjectMeta) { m.Generation = 1 }))},
		"Released":       {revision: installedRevision(), find: found(liveObject(func(m *metav1.ObjectMeta) { m.OwnerReferences = nil })), want: []string{"has no controller"}},
		"TakenOver": {
			revision: installedRevision(), find: found(liveObject(func(m *metav1.ObjectMeta) { m.OwnerReferences[0].UID, m.OwnerReferences[0].Name = "r2", "s3-2" })),
			want: []string{"is controlled by ProviderRevision s3-2"},
		},
		"Unlabelled": {
			revision: installedRevision(), find: found(liveObject(func(m *metav1.ObjectMeta) { m.Labels = nil })),
			want: []string{"does not have the label app=storage"},
		},
		"NotKnown":              {revision: installedRevision(), find: notKnown, unknown: 1},
		"NotRecorded":           {revision: installedRevision(without), find: found(liveObject()), unknown: 1},
		"NotRecordedAndMissing": {revision: installedRevision(without), find: found(nil), want: []string{"does not exist"}},
		"Dropped": {revision: installedRevision(func(r *pkgv1.ProviderRevision) {
			r.Annotations[transaction.AnnotationGenerations] = transaction.Generations{"ffffffff-ffff-": 1}.Encode()
		}), find: found(nil)},
		"Announced": {revision: installedRevision(func(r *pkgv1.ProviderRevision) { r.Status.ObjectRefs[0].UID = nil }), find: found(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deviations, unknown := transaction.Deviations(c.revision, c.find)
			var got []string
			for _, d := range deviations {
				got = append(got, strings.TrimPrefix(d.String(), "CustomResourceDefinition buckets.example.org "))
			}
			if diff := cmp.Diff(c.want, got); diff != "" || len(unknown) != c.unknown {
				t.Errorf("%d unknown, want %d; deviations (-want +got):\n%s", len(unknown), c.unknown, diff)
			}
		})
	}
}

// TestGenerationsFitIntoAnAnnotation: of 2,700 objects, which is three times what the largest
// provider brings.
func TestGenerationsFitIntoAnAnnotation(t *testing.T) {
	t.Parallel()
	g := transaction.Generations{}
	for n := range 2700 {
		g[types.UID(fmt.Sprintf("%08x-%04x-cdef-0123-456789abcdef", n*7919, n))] = int64(n)
	}
	if size := len(g.Encode()); size > 64<<10 {
		t.Errorf("%d bytes", size)
	}
}

// TestHalf: what a revision controls that is not active, an installation has left behind.
func TestHalf(t *testing.T) {
	t.Parallel()
	active := installedRevision()
	half := installedRevision(func(r *pkgv1.ProviderRevision) {
		r.Name, r.UID, r.Spec.DesiredState, r.Status.Conditions = "s3-2", "r2", pkgv1.RevisionInactive, nil
	})
	of := func(uid types.UID) transaction.Lookup {
		return found(liveObject(func(m *metav1.ObjectMeta) { m.OwnerReferences[0].UID = uid }))
	}
	for name, c := range map[string]struct {
		revisions []*pkgv1.ProviderRevision
		find      transaction.Lookup
		want      int
	}{
		"Whole":   {[]*pkgv1.ProviderRevision{active, half}, of("r1"), 0},
		"Update":  {[]*pkgv1.ProviderRevision{active, half}, of("r2"), 1},
		"First":   {[]*pkgv1.ProviderRevision{half}, of("r2"), 1},
		"Removed": {[]*pkgv1.ProviderRevision{half}, found(nil), 0},
	} {
		if got := transaction.Half(c.revisions, c.find); len(got) != c.want {
			t.Errorf("%s: %v, want %d", name, got, c.want)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	ref := installedRevision().Status.ObjectRefs[0]
	deviation := []transaction.Deviation{{Object: ref, Why: "does not exist"}}
	const says = "CustomResourceDefinition buckets.example.org does not exist. The next transaction installs what differs again. To have one now: "
	for name, c := range map[string]struct {
		last       string
		deviations []transaction.Deviation
		unknown    []pkgv1.TypedReference
		want       metav1.Condition
	}{
		"Healthy": {want: metav1.Condition{Status: metav1.ConditionTrue, Reason: pkgv1.ReasonHealthyPackageRevision}},
		"Unhealthy": {last: "tx-1", deviations: deviation, want: metav1.Condition{
			Status: metav1.ConditionFalse, Reason: pkgv1.ReasonUnhealthyPackageRevision, Message: says + "kubectl delete transaction tx-1",
		}},
		"WithoutItsTransaction": {deviations: deviation, want: metav1.Condition{
			Status: metav1.ConditionFalse, Reason: pkgv1.ReasonUnhealthyPackageRevision, Message: says + "kubectl label provider s3 pkg.crossplane.io/transaction-generation-",
		}},
		"TakenOver": {last: "tx-1", deviations: []transaction.Deviation{{Object: ref, Why: "is controlled by Thing x", Taken: true}}, want: metav1.Condition{
			Status: metav1.ConditionFalse, Reason: pkgv1.ReasonUnhealthyPackageRevision,
			Message: "CustomResourceDefinition buckets.example.org is controlled by Thing x. The next transaction installs what differs again, " +
				"but takes no object that another package or program controls. To have one now: kubectl delete transaction tx-1",
		}},
		"NotKnown": {unknown: []pkgv1.TypedReference{ref}, want: metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: pkgv1.ReasonUnknownPackageRevisionHealth, Message: "CustomResourceDefinition buckets.example.org cannot be compared with what was installed",
		}},
	} {
		c.want.Type = pkgv1.RevisionConditionHealthy
		if diff := cmp.Diff(c.want, transaction.Health("Provider", "s3", c.last, c.deviations, c.unknown)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
