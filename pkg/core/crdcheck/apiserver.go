package crdcheck

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// refusals returns what the API server would answer to a write of the new CRD. The old one is nil
// if there is none.
func refusals(ctx context.Context, before, after *apiextensionsv1.CustomResourceDefinition) []Finding {
	newCRD, err := toInternal(after)
	if err != nil {
		return []Finding{refusal(after.Name, "", err.Error())}
	}
	var errs field.ErrorList
	if before == nil {
		newCRD.ResourceVersion, newCRD.Status = "", apiextensions.CustomResourceDefinitionStatus{}
		storeNew(newCRD)
		errs = validation.ValidateCustomResourceDefinition(ctx, newCRD)
	} else {
		oldCRD, err := toInternal(before)
		if err != nil {
			return []Finding{refusal(after.Name, "", err.Error())}
		}
		updateFrom(newCRD, oldCRD)
		errs = validation.ValidateCustomResourceDefinitionUpdate(ctx, newCRD, oldCRD)
	}
	findings := lostStoredVersions(before, after)
	for _, e := range errs {
		if strings.HasPrefix(e.Field, "status.storedVersions") {
			continue // lostStoredVersions has a better text
		}
		findings = append(findings, refusal(after.Name, e.Field, "the API server would refuse "+e.Field+": "+body(e)))
	}
	return findings
}

// body returns the words of an error, with its value if that is a string.
func body(e *field.Error) string {
	if reflect.ValueOf(e.BadValue).Kind() == reflect.String {
		return e.ErrorBody()
	}
	return (&field.Error{Type: e.Type, BadValue: field.OmitValueType{}, Detail: e.Detail, Field: e.Field}).ErrorBody()
}

func refusal(crd, at, what string) Finding {
	return Finding{Reason: SchemaIncompatible, Hard: true, CRD: crd, Path: at, What: what}
}

// lostStoredVersions finds versions that etcd still has objects in.
func lostStoredVersions(before, after *apiextensionsv1.CustomResourceDefinition) []Finding {
	if before == nil {
		return nil
	}
	var findings []Finding
	for _, name := range storedVersions(before) {
		if versionOf(&after.Spec, name) == nil {
			findings = append(findings, refusal(after.Name, "status.storedVersions", fmt.Sprintf(
				"version %s is removed, but objects may be stored in it; migrate them and remove it from status.storedVersions first", name)))
		}
	}
	return findings
}

func toInternal(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	defaulted := crd.DeepCopy() // the internal type shares memory with it
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(defaulted)
	out := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(defaulted, out, nil); err != nil {
		return nil, fmt.Errorf("convert CustomResourceDefinition %q: %w", crd.Name, err)
	}
	return out, nil
}

// updateFrom sets what an update cannot change, as the API server does.
func updateFrom(after, before *apiextensions.CustomResourceDefinition) {
	labels, annotations := after.Labels, after.Annotations
	before.ObjectMeta.DeepCopyInto(&after.ObjectMeta)
	after.Labels, after.Annotations = labels, annotations
	// What a destination reports of its CRD may have neither: then it is in use.
	if before.ResourceVersion == "" {
		before.ResourceVersion, after.ResourceVersion = "0", "0"
	}
	if len(before.Status.Conditions) == 0 {
		established := apiextensions.CustomResourceDefinitionCondition{Type: apiextensions.Established, Status: apiextensions.ConditionTrue}
		before.Status.Conditions = append(before.Status.Conditions, established)
	}
	after.Status = *before.Status.DeepCopy()
	storeNew(after)
}

// storeNew adds the storage version to those in which objects are stored.
func storeNew(crd *apiextensions.CustomResourceDefinition) {
	for i := range crd.Spec.Versions {
		if name := crd.Spec.Versions[i].Name; crd.Spec.Versions[i].Storage && !slices.Contains(crd.Status.StoredVersions, name) {
			crd.Status.StoredVersions = append(crd.Status.StoredVersions, name)
			return
		}
	}
}
