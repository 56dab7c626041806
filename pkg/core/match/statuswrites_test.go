package match

import (
	"fmt"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// serviceHistory is a Service in an API server, whose generation is not counted, and an Index that
// observes its versions late.
type serviceHistory struct {
	*Index

	random *rand.Rand
	// edits has for each version whether it is of an edit; the others are of writes of the status.
	edits    []bool
	observed int // versions
	// changed counts how often the Index took a version for an edit.
	changed int
}

var service = objref.Ref{Resource: "services", Namespace: "web", Name: "web"}

func newServiceHistory(t *testing.T, random *rand.Rand) *serviceHistory {
	t.Helper()
	h := &serviceHistory{Index: NewIndex(Options{}), random: random, edits: []bool{true}}
	compiled, mistakes := Compile(&controlv1alpha1.BindingPolicySpec{Downsync: []controlv1alpha1.DownsyncPolicyClause{{
		DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{Resources: []string{"services"}},
	}}})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	h.SetPolicy("p", compiled)
	h.SetKnown(services)
	h.observe()
	h.changed = 0
	return h
}

var services = Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "services"}, Kind: "Service"}

func (h *serviceHistory) now() int { return len(h.edits) }

func (h *serviceHistory) write(edit bool) { h.edits = append(h.edits, edit) }

// observe has the Index observe the next version.
func (h *serviceHistory) observe() {
	if h.observed == len(h.edits) {
		return
	}
	h.observed++
	h.count(h.SetObject(services, &metav1.ObjectMeta{
		Namespace: service.Namespace, Name: service.Name, UID: "uid", ResourceVersion: fmt.Sprint(h.observed),
		Labels: map[string]string{controlv1alpha1.LabelSingletonStatus: "true"},
	}))
}

func (h *serviceHistory) count(changes Changes) {
	if changes.Policies["p"]&ChangedVersions != 0 {
		h.changed++
	}
}

// returnStatus writes the status on a version, which succeeds if that is the one now. Others write
// and the Index observes meanwhile.
func (h *serviceHistory) returnStatus(on int, meanwhile func()) {
	h.StatusWriting(service, fmt.Sprint(on))
	meanwhile()
	left := ""
	if on == h.now() {
		h.write(false)
		left = fmt.Sprint(h.now())
	}
	meanwhile()
	h.count(h.StatusWritten(service, left))
}

// TestStatusWrites: whatever is observed when, the Index ends with the version of the last edit,
// and without an edit it finds none.
func TestStatusWrites(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		h := newServiceHistory(t, random)
		editing, edited := seed%2 == 0, false
		meanwhile := func() {
			for range random.IntN(3) {
				if random.IntN(4) == 0 && editing {
					h.write(true)
					edited = true
				} else {
					h.observe()
				}
			}
		}
		for range 1 + random.IntN(8) {
			meanwhile()
			h.returnStatus(h.now()-random.IntN(2)*random.IntN(2), meanwhile)
		}
		for h.observed < h.now() {
			h.observe()
		}
		want := h.now()
		for !h.edits[want-1] {
			want--
		}
		snapshot, _, _ := h.Snapshot("p", Listed{})
		if got := snapshot.Matches[0].ResourceVersion; got != fmt.Sprint(want) {
			t.Fatalf("seed %d: version %s, want %d of %v", seed, got, want, h.edits)
		}
		if !edited && h.changed > 0 {
			t.Fatalf("seed %d: %d edits are found, and there was none: %v", seed, h.changed, h.edits)
		}
		if edited && h.changed == 0 {
			t.Fatalf("seed %d: no edit is found: %v", seed, h.edits)
		}
	}
}

// TestStatusWritesAfterRestart: a version that was found at the start may be of a write of the
// status, if the object has a label about that. Otherwise it is of an edit.
func TestStatusWritesAfterRestart(t *testing.T) {
	for name, tc := range map[string]struct {
		labels    map[string]string
		wantExact bool
	}{
		"Labelled": {map[string]string{controlv1alpha1.LabelSingletonStatus: "true"}, false},
		"Plain":    {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newServiceHistory(t, rand.New(rand.NewPCG(1, 1)))
			h.DeleteResource(services.GroupResource())
			h.SetObject(services, &metav1.ObjectMeta{Namespace: "web", Name: "web", UID: "uid", ResourceVersion: "7", Labels: tc.labels})
			h.SetKnown(services)
			snapshot, _, _ := h.Snapshot("p", Listed{})
			if got := snapshot.Matches[0].Exact; got != tc.wantExact {
				t.Errorf("exact %t, want %t", got, tc.wantExact)
			}
		})
	}
}
