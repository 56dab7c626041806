package statusreports

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/statusreports/mailboxes"
)

// Run with: go test -run '^$' -bench . -count 6 ./pkg/statusreports | bin/tools/benchstat
// /dev/stdin

// BenchmarkVersion is what a CombinedStatus of an object in many clusters asks for each of them,
// whichever reported.
func BenchmarkVersion(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("clusters=%d", n), func(b *testing.B) {
			ref := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}
			r := newReader(home{its: "its1", state: inventory.Accepted})
			boxes := r.add("its1", mailboxes.Limits{Reports: 10, Bytes: 1 << 10})
			for i := range n {
				ws := &controlv1alpha1.WorkStatus{ObjectMeta: metav1.ObjectMeta{
					Namespace: fmt.Sprint(i), Name: corestatus.ReportName(ref), UID: "u", ResourceVersion: "1",
				}}
				ws.Spec.SourceRef = controlv1alpha1.SourceRef{Group: ref.Group, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name}
				if err := boxes.Add(ws); err != nil {
					b.Fatal(err)
				}
			}
			cluster := fmt.Sprint(n / 2)
			for b.Loop() {
				if version, _ := r.Version(ref, "", cluster); version == "" {
					b.Fatal("not reported")
				}
			}
		})
	}
}
