package crdcheck_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/starlinghq/starling/pkg/core/crdcheck"
)

// TestCRDChanges: each kind of change outside the schemas.
func TestCRDChanges(t *testing.T) {
	type change struct {
		Version, Path string
		Kind          crdcheck.Kind
		Breaking      bool
		What          string
	}
	schema := spec("a: {type: string}")
	webhook := &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{}}
	for name, tc := range map[string]struct {
		before, after func(crd *crdType) // edits of a CRD with v1, and v2 stored
		want          []change
	}{
		"Scope": {
			nil, func(crd *crdType) { crd.Spec.Scope = apiextensionsv1.ClusterScoped },
			[]change{{"", "spec.scope", crdcheck.ScopeChanged, true, "spec.scope: scope is Cluster now, Namespaced before"}},
		},
		"Kind": {
			nil, func(crd *crdType) { crd.Spec.Names.Kind, crd.Spec.Names.Singular = "Gadget", "widget" },
			[]change{
				{"", "spec.names.kind", crdcheck.KindChanged, true, "spec.names.kind: kind is Gadget now, Widget before"},
				{"", "spec.names.listKind", crdcheck.KindChanged, true, "spec.names.listKind: listKind is GadgetList now, WidgetList before"},
			},
		},
		"Names": {
			nil, func(crd *crdType) {
				crd.Spec.Names.ShortNames, crd.Spec.Names.Categories = []string{"w"}, []string{"all"}
			},
			[]change{
				{"", "spec.names.shortNames", crdcheck.NamesChanged, false, "spec.names.shortNames: shortNames is w now, unset before"},
				{"", "spec.names.categories", crdcheck.NamesChanged, false, "spec.names.categories: categories is all now, unset before"},
			},
		},
		"Group": {
			nil, func(crd *crdType) { crd.Spec.Group = "example.org" },
			[]change{{"", "spec.group", crdcheck.NamesChanged, true, "spec.group: group is example.org now, example.com before"}},
		},
		"ConversionAdded": {
			nil, func(crd *crdType) { crd.Spec.Conversion = webhook },
			[]change{
				{"", "spec.conversion.strategy", crdcheck.ConversionChanged, false, "spec.conversion.strategy: strategy is Webhook now, None before"},
				{"", "spec.conversion.webhook", crdcheck.ConversionChanged, false, `spec.conversion.webhook: webhook is {"conversionReviewVersions":null} now, unset before`},
			},
		},
		"ConversionRemoved": {
			func(crd *crdType) { crd.Spec.Conversion = webhook }, nil,
			[]change{
				{"", "spec.conversion.strategy", crdcheck.ConversionChanged, true, "spec.conversion.strategy: strategy is None now, Webhook before"},
				{"", "spec.conversion.webhook", crdcheck.ConversionChanged, false, `spec.conversion.webhook: webhook is removed now, {"conversionReviewVersions":null} before`},
			},
		},
		"StorageVersion": {
			nil, func(crd *crdType) { crd.Spec.Versions[0].Storage, crd.Spec.Versions[1].Storage = true, false },
			[]change{{"", "spec.versions.storage", crdcheck.StorageVersionChanged, false, "spec.versions.storage: storage is v1 now, v2 before"}},
		},
		"PreserveUnknownFields": {
			func(crd *crdType) { crd.Spec.PreserveUnknownFields = true }, nil,
			[]change{{"", "spec.preserveUnknownFields", crdcheck.PreserveUnknownRemoved, true, "spec.preserveUnknownFields no longer keeps unknown fields"}},
		},
		"VersionAdded": {
			nil, func(crd *crdType) {
				added := *crd.Spec.Versions[0].DeepCopy()
				added.Name = "v3"
				crd.Spec.Versions = append(crd.Spec.Versions, added)
			},
			[]change{{"v3", "", crdcheck.VersionAdded, false, "is new"}},
		},
		"VersionRemoved": {
			nil, func(crd *crdType) { crd.Spec.Versions = crd.Spec.Versions[1:] },
			[]change{{"v1", "", crdcheck.VersionRemoved, true, "is removed"}},
		},
		"UnusedVersionRemoved": {
			func(crd *crdType) { crd.Spec.Versions[0].Served = false }, func(crd *crdType) { crd.Spec.Versions = crd.Spec.Versions[1:] },
			[]change{{"v1", "", crdcheck.VersionRemoved, false, "is removed"}},
		},
		"StoredVersionRemoved": {
			func(crd *crdType) { crd.Status.StoredVersions = []string{"v1", "v2"} },
			func(crd *crdType) { crd.Spec.Versions = crd.Spec.Versions[1:] },
			[]change{{"v1", "", crdcheck.StoredVersionRemoved, true, "is removed, but objects are stored in it"}},
		},
		"NotServed": {
			nil, func(crd *crdType) { crd.Spec.Versions[0].Served = false },
			[]change{{"v1", "", crdcheck.ServedVersionRemoved, true, "is not served any more"}},
		},
		"ServedAgain": {
			func(crd *crdType) { crd.Spec.Versions[0].Served = false }, nil, []change{{"v1", "", crdcheck.VersionAdded, false, "is new"}},
		},
		"StatusAdded": {
			nil, func(crd *crdType) {
				crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
			},
			[]change{{"v1", "subresources.status", crdcheck.SubresourceChanged, true, "subresources.status: status is {} now, unset before"}},
		},
		"ScaleAdded": {
			nil, func(crd *crdType) {
				crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Scale: &apiextensionsv1.CustomResourceSubresourceScale{}}
			},
			[]change{{"v1", "subresources.scale", crdcheck.SubresourceChanged, false, `subresources.scale: scale is {"specReplicasPath":"","statusReplicasPath":""} now, unset before`}},
		},
		"SelectableFieldRemoved": {
			func(crd *crdType) {
				crd.Spec.Versions[0].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.a"}, {JSONPath: ".spec.b"}}
			},
			func(crd *crdType) {
				crd.Spec.Versions[0].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.b"}}
			},
			[]change{{"v1", "selectableFields", crdcheck.SelectableFieldsChanged, true, "selectableFields: selectableFields is .spec.b now, .spec.a, .spec.b before"}},
		},
		"PrinterColumns": {
			nil, func(crd *crdType) {
				crd.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "A"}}
			}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := newCRD(t, "v1", schema, "v2", schema), newCRD(t, "v1", schema, "v2", schema)
			if tc.before != nil {
				tc.before(before)
			}
			if tc.after != nil {
				tc.after(after)
			}
			var got []change
			for _, c := range crdcheck.Compare(before, after) {
				got = append(got, change{c.Version, c.Path, c.Kind, c.Breaking, c.Describe()})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
