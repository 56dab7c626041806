package client

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pages lists 1,200 objects, each with its name as its label, and notes the options.
func pages(asked *[]metav1.ListOptions) ListMetadata {
	return func(_ context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		*asked = append(*asked, options)
		var list metav1.PartialObjectMetadataList
		var from int
		if options.Continue != "" {
			if _, err := fmt.Sscan(options.Continue, &from); err != nil {
				return nil, err
			}
		}
		for i := from; i < 1200; i++ {
			name := fmt.Sprint("o", i)
			if options.FieldSelector != "" && options.FieldSelector != "metadata.name="+name {
				continue
			}
			if int64(len(list.Items)) == options.Limit {
				list.Continue = fmt.Sprint(i)
				break
			}
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}})
		}
		return &list, nil
	}
}

func TestReadLabels(t *testing.T) {
	is := func(name string) map[string]string { return map[string]string{"name": name} }
	for name, tc := range map[string]struct {
		names    []string
		requests int
		want     map[string]map[string]string
	}{
		"None":    {nil, 0, map[string]map[string]string{}},
		"Few":     {[]string{"o1", "o1199", "missing"}, 3, map[string]map[string]string{"o1": is("o1"), "o1199": is("o1199")}},
		"InPages": {[]string{"o0", "o1", "o2", "missing", "o600", "o1199"}, 3, map[string]map[string]string{"o0": is("o0"), "o1": is("o1"), "o2": is("o2"), "o600": is("o600"), "o1199": is("o1199")}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []metav1.ListOptions
			got, err := ReadLabels(t.Context(), pages(&asked), tc.names)
			if err != nil || len(asked) != tc.requests {
				t.Errorf("error %v, %d requests: %v", err, len(asked), asked)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	failing := func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return nil, errors.New("no answer")
	}
	for _, names := range [][]string{{"a"}, {"a", "b", "c", "d", "e", "f"}} {
		if got, err := ReadLabels(t.Context(), failing, names); err == nil {
			t.Errorf("%v without an error for %v", got, names)
		}
	}
}
