package combinedstatus

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/combine"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists status.errors of a StatusCollector as it is stored: the controller bounds what
// package combine reports. It has no conditions and no events.
func TestTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, 1)
		stop := h.start()
		sc := &controlv1alpha1.StatusCollector{ObjectMeta: metav1.ObjectMeta{Name: "1", Generation: 1}}
		for i := range maxErrors + 2 {
			sc.Spec.Select = append(sc.Spec.Select, controlv1alpha1.NamedExpression{Name: fmt.Sprintf("c%d", i), Def: "inventry"})
		}
		h.mu.Lock()
		h.sources["collectors"].Add(sc)
		h.collectors["1"] = sc
		h.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		for _, source := range h.sources {
			source.Shutdown()
		}
		errs := h.collectors["1"].Status.Errors
		if len(errs) != maxErrors+1 {
			t.Fatalf("%d errors, want %d and the number of the others", len(errs), maxErrors)
		}
		golden.Texts(t,
			golden.Text{Heading: "An evaluation that takes too long", Text: tooLong(match.Pair{Ref: refOf("a"), Policy: "p"}, &combine.InterruptedError{Cluster: "x"})},
			golden.Text{Heading: "The first error", Text: errs[0]},
			golden.Text{Heading: "After the last error that is shown", Text: errs[maxErrors]},
		)
	})
}
