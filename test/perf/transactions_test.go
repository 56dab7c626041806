package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestTransactionWatch: the moments are those of the first time, and the Lock counts for the
// Transaction that held it.
func TestTransactionWatch(t *testing.T) {
	w := &transactionWatch{names: map[packageGeneration]string{}, seen: map[string]*moments{}}
	at := func(second int) time.Time { return time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC) }
	lock := func(second int, holder string) {
		o := &unstructured.Unstructured{Object: map[string]any{"kind": "Lock"}}
		if holder != "" {
			o.SetAnnotations(map[string]string{"pkg.crossplane.io/current-transaction": holder})
		}
		w.noteLock(o, at(second))
	}
	tx := func(second int, conditions ...string) {
		var list []any
		for _, c := range conditions {
			list = append(list, map[string]any{"type": c, "status": "True"})
		}
		list = append(list, map[string]any{"type": "Synced", "status": "False", "message": "a registry did not answer"})
		w.noteTransaction(&unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "tx-1", "labels": map[string]any{
				"pkg.crossplane.io/package": "s3", "pkg.crossplane.io/transaction-generation": "2",
			}},
			"status": map[string]any{"conditions": list},
		}}, at(second))
	}
	tx(0)
	lock(1, "tx-1")
	lock(2, "tx-1")
	tx(3, "Validated")
	tx(4, "Validated", "Installed")
	lock(5, "")
	tx(6, "Validated", "Installed", "Ready")
	tx(7, "Validated", "Installed", "Ready")
	want := moments{
		name: "tx-1", acquired: at(1), validated: at(3), installed: at(4), ready: at(6), released: at(5), message: "Synced: a registry did not answer ",
	}
	got, err := w.await(t.Context(), "s3", 2)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(moments{})); diff != "" || err != nil {
		t.Errorf("%v, moments (-want +got):\n%s", err, diff)
	}
	if got.held() != 4*time.Second {
		t.Errorf("held for %s, want 4s", got.held())
	}
}

// TestDefinition: an edition changes one CRD, and CRDs are as large as those of real providers.
func TestDefinition(t *testing.T) {
	first, same, later := definition("a.example.org", "Kind", 60, 0), definition("a.example.org", "Kind", 60, 0), definition("a.example.org", "Kind", 60, 1)
	if !cmp.Equal(first, same) || cmp.Equal(first, later) {
		t.Error("the edition does not say what is the same")
	}
	text, err := first.MarshalJSON()
	if err != nil || len(text) < 20<<10 || len(text) > 50<<10 {
		t.Errorf("a CRD has %d bytes (%v), want 20 to 50 KiB", len(text), err)
	}
}
