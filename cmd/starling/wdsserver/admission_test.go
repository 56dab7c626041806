package wdsserver

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// TestExtends: what may differ is metadata, and what an API server adds by default, also in the
// elements of lists.
func TestExtends(t *testing.T) {
	const before = `{"apiVersion":"v1alpha1","metadata":{"a":"b"},"spec":{"size":3,"list":[{"a":1}],"none":null}}`
	for name, tc := range map[string]struct {
		now  string
		want bool
	}{
		"Metadata": {`{"apiVersion":"v1","metadata":{},"spec":{"size":3,"list":[{"a":1}],"none":null}}`, true},
		"Defaults": {`{"spec":{"size":3,"list":[{"a":1,"b":2}],"none":null,"new":{"x":1}},"more":1}`, true},
		"Changed":  {`{"spec":{"size":4,"list":[{"a":1}],"none":null}}`, false},
		"InAList":  {`{"spec":{"size":3,"list":[{"a":2}],"none":null}}`, false},
		"Longer":   {`{"spec":{"size":3,"list":[{"a":1},{}],"none":null}}`, false},
		"Removed":  {`{"spec":{"list":[{"a":1}],"none":null}}`, false},
		"NullGone": {`{"spec":{"size":3,"list":[{"a":1}]}}`, false},
		"NoSpec":   {`{"metadata":{"a":"b"}}`, false},
		"NoMap":    {`{"spec":"x"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := [2]unstructured.Unstructured{}
			for i, raw := range []string{tc.now, before} {
				if err := kjson.Unmarshal([]byte(raw), &objects[i].Object); err != nil {
					t.Fatal(err)
				}
			}
			if got := extends(&objects[0], &objects[1]); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
