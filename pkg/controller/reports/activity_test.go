package reports

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

func TestActivity(t *testing.T) {
	a := newActivity()
	handler := a.handler()
	report := func(cluster string, second int64) *controlv1alpha1.WorkStatus {
		return &controlv1alpha1.WorkStatus{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, CreationTimestamp: metav1.Time{Time: time.Unix(second, 0)}}}
	}
	want := func(what string, values map[string]float64) {
		t.Helper()
		if diff := cmp.Diff(values, a.values()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	handler.OnAdd(report("c1", 10), true)
	handler.OnAdd(report("c1", 7), true)
	handler.OnAdd(report("c2", 8), true)
	want("added", map[string]float64{"c1": 10, "c2": 8})
	handler.OnUpdate(report("c2", 8), report("c2", 12))
	want("changed", map[string]float64{"c1": 10, "c2": 12})
	handler.OnDelete(report("c1", 10))
	handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: report("c2", 12)})
	want("deleted", map[string]float64{"c1": 10})
	handler.OnDelete(report("c1", 7))
	want("all deleted", map[string]float64{})
}
