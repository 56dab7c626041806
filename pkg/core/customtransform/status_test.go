package customtransform

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

func TestStatus(t *testing.T) {
	inForce := &custom("", settings, "$.data.old").Spec
	many := make([]string, 40)
	for i := range many {
		many[i] = "x"
	}
	var names []string
	for i := range 18 {
		names = append(names, fmt.Sprintf("r%02d", 17-i))
	}
	manyErrors := make([]string, 33)
	for i := range manyErrors {
		manyErrors[i] = fmt.Sprintf("Error in spec.remove[%d]: at character 1: expected $, found 'x'", i)
	}
	manyErrors[32] = "… and 8 more"
	const lost = ", without which no object can be delivered"
	cases := map[string]struct {
		removes []string
		names   []string
		want    controlv1alpha1.CustomTransformStatus
	}{
		"Fine":    {[]string{"$.data.a"}, []string{"x"}, controlv1alpha1.CustomTransformStatus{}},
		"Nothing": {nil, []string{"x"}, controlv1alpha1.CustomTransformStatus{}},
		"Mistakes": {
			[]string{"$.data", "$", "$.", "$.metadata.labels"},
			[]string{"x"},
			controlv1alpha1.CustomTransformStatus{InForce: inForce, Errors: []string{
				"Invalid spec.remove[1]: it identifies the whole object",
				`Error in spec.remove[2]: at character 3: expected a name or *, found the end; a name with characters other than letters, digits and _ must be written as ["name"], without a dot`,
			}},
		},
		"WhatEveryObjectNeeds": {
			[]string{"$.apiVersion", "$['kind']", "$.*", "$.metadata", "$.metadata.name", "$[?@.x].namespace", "$.metadata[?@ == 'x']", "$.spec.name", "$.metadata.generateName"},
			[]string{"x"},
			controlv1alpha1.CustomTransformStatus{InForce: inForce, Errors: []string{
				"Error in spec.remove[0]: it may select apiVersion" + lost,
				"Error in spec.remove[1]: it may select kind" + lost,
				"Error in spec.remove[2]: it may select apiVersion" + lost,
				"Error in spec.remove[3]: it may select metadata" + lost,
				"Error in spec.remove[4]: it may select metadata.name" + lost,
				"Error in spec.remove[5]: it may select metadata.namespace" + lost,
				"Error in spec.remove[6]: it may select metadata.name" + lost,
			}},
		},
		"SameResource": {
			nil,
			[]string{"x", "a"},
			controlv1alpha1.CustomTransformStatus{Warnings: []string{
				"multiple CustomTransform objects specify the same GroupResource; their names are a, x",
			}},
		},
		"Bounded": {
			many, names,
			controlv1alpha1.CustomTransformStatus{InForce: inForce, Errors: manyErrors, Warnings: []string{
				"multiple CustomTransform objects specify the same GroupResource; their names are " +
					"r00, r01, r02, r03, r04, r05, r06, r07, r08, r09, r10, r11, r12, r13, r14, r15 … and 2 more",
			}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ct := custom("x", settings, tc.removes...)
			ct.Generation = 3
			tc.want.ObservedGeneration = 3
			if diff := cmp.Diff(tc.want, Status(ct, tc.names, inForce)); diff != "" {
				t.Errorf("Status() (-want +got):\n%s", diff)
			}
		})
	}
}
