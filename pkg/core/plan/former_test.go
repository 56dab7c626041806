package plan_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// TestKeepFormer: the value in the work counts while the field has no manager of its own, unless
// the cluster has refused it, or it cannot be a field.
func TestKeepFormer(t *testing.T) {
	at := func(spec map[string]any) transform.Object {
		o, err := transform.Pipeline{}.Apply(nginx, map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": nginx.Name, "namespace": nginx.Namespace}, "spec": spec,
		})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	five, three, none := at(map[string]any{"replicas": int64(5)}), at(map[string]any{"replicas": int64(3), "paused": true}), at(map[string]any{"paused": true})
	list := at(map[string]any{"replicas": []any{map[string]any{"a": int64(1)}}})
	unread := errors.New("not read")
	for name, tc := range map[string]struct {
		had     transform.Object
		wanted  transform.Object
		item    plan.Item
		readErr error
		want    string
		reads   int
	}{
		"Changed":        {had: five, wanted: three, item: plan.Item{State: plan.Applied}, want: `"replicas":5`, reads: 1},
		"Removed":        {had: five, wanted: none, item: plan.Item{State: plan.Applied}, want: `"replicas":5`, reads: 1},
		"ComesNew":       {had: none, wanted: three, item: plan.Item{State: plan.Applied}, want: `"spec":{"paused":true}`, reads: 1},
		"NotReported":    {had: five, wanted: three, want: `"replicas":5`, reads: 1},
		"TheSame":        {had: three, wanted: three, item: plan.Item{State: plan.Applied}, want: `"replicas":3`},
		"Refused":        {had: five, wanted: three, item: plan.Item{State: plan.Failed, Message: "invalid"}, want: `"replicas":3`},
		"NeverReports":   {had: five, wanted: three, item: plan.Item{State: plan.Silent}, want: `"replicas":3`},
		"OnlyClaimed":    {had: five, wanted: three, item: plan.Item{Options: plan.Options{Observe: true}}, want: `"replicas":3`},
		"Settled":        {had: five, wanted: three, item: plan.Item{State: plan.Applied, Options: plan.Options{Stage: plan.Stage{Begun: true, Left: ".spec.replicas"}}}, want: `"replicas":3`},
		"AListBefore":    {had: list, wanted: three, item: plan.Item{State: plan.Applied}, want: `"replicas":3`, reads: 1},
		"CannotBeRead":   {had: five, wanted: three, item: plan.Item{State: plan.Applied}, readErr: unread, reads: 1},
		"AnotherVersion": {had: five, wanted: three, item: plan.Item{State: plan.Applied, Version: "v1beta1"}, want: `"replicas":3`},
	} {
		t.Run(name, func(t *testing.T) {
			object, err := plan.Object{Object: tc.wanted, Known: true, Options: plan.Options{IgnoredFields: ".spec.replicas"}}.Ignoring()
			if err != nil {
				t.Fatal(err)
			}
			item := tc.item
			item.Ref, item.Hash = nginx, tc.had.Hash
			if item.Version == "" {
				item.Version = "v1"
			}
			reads := 0
			desired, err := plan.KeepFormer(plan.NewDesired([]plan.Object{object}, packing.Limits{Count: 1, Bytes: 9999}),
				[]*plan.Work{{Name: "w", Items: []plan.Item{item}}}, func(*plan.Work, objref.Ref) (transform.Object, error) {
					reads++
					return tc.had, tc.readErr
				})
			if reads != tc.reads || !errors.Is(err, tc.readErr) {
				t.Errorf("%d reads, want %d; error %v, want %v", reads, tc.reads, err, tc.readErr)
			}
			if err == nil && !strings.Contains(string(desired.Object(nginx).Whole.JSON), tc.want) {
				t.Errorf("the whole object is %s, want %s", desired.Object(nginx).Whole.JSON, tc.want)
			}
		})
	}
}
