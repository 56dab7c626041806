package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// TestBehind: a store that is as new as what was read, or newer, is not behind.
func TestBehind(t *testing.T) {
	type versions = map[cache.ObjectName]string
	a, b := cache.ObjectName{Name: "a"}, cache.ObjectName{Namespace: "n", Name: "a"}
	for name, tc := range map[string]struct {
		before, read, shown versions
		want                bool
	}{
		"Nothing":               {nil, nil, nil, false},
		"Same":                  {versions{a: "9"}, versions{a: "9"}, versions{a: "9"}, false},
		"Older":                 {versions{a: "9"}, versions{a: "10"}, versions{a: "9"}, true},
		"Newer":                 {versions{a: "9"}, versions{a: "10"}, versions{a: "11"}, false},
		"NotShown":              {nil, versions{a: "9"}, nil, true},
		"OtherNamespace":        {versions{a: "9"}, versions{a: "9", b: "9"}, versions{a: "9"}, true},
		"DeletionNotShown":      {versions{a: "9"}, nil, versions{a: "9"}, true},
		"OneDeletionNotShown":   {versions{a: "9", b: "9"}, versions{a: "9"}, versions{a: "9", b: "9"}, true},
		"DeletionShown":         {versions{a: "9"}, nil, nil, false},
		"DeletedAfterTheRead":   {versions{a: "9"}, versions{a: "9"}, nil, false},
		"CreatedAfterTheRead":   {nil, nil, versions{a: "9"}, false},
		"ShownWhileItWasRead":   {nil, versions{a: "9"}, versions{a: "9"}, false},
		"VersionsAreNoNumbers":  {versions{a: "x"}, versions{a: "y"}, versions{a: "x"}, false},
		"OneOfTwoIsNotUpToDate": {versions{a: "9", b: "9"}, versions{a: "9", b: "10"}, versions{a: "9", b: "9"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := behind(tc.before, tc.read, tc.shown, isNewer); got != tc.want {
				t.Errorf("behind: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestCatchUpStore: it waits for what the API server has, also if that does not answer at first,
// and if what was read first never shows because it was deleted.
func TestCatchUpStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := func(version string) *metav1.PartialObjectMetadata {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: version}}
		}
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		set := func(o *metav1.PartialObjectMetadata) {
			if err := store.Add(o); err != nil {
				t.Error(err)
			}
		}
		set(object("1"))
		reads := 0
		list := func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			items := []metav1.PartialObjectMetadata{*object("3")}
			reads++
			switch reads {
			case 1:
				return nil, errors.New("no answer")
			case 2:
				gone := *object("2")
				gone.Name = "gone"
				items = append(items, gone)
			case 3:
				set(object("3"))
			}
			return &metav1.PartialObjectMetadataList{Items: items}, nil
		}
		if err := CatchUpStore(t.Context(), list, store); err != nil {
			t.Error(err)
		}
		if reads != 3 {
			t.Errorf("%d reads, want 3", reads)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := CatchUpStore(ctx, list, cache.NewStore(cache.MetaNamespaceKeyFunc)); err == nil {
			t.Error("no error after the end of the context")
		}
	})
}
