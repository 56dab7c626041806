package crdcheck_test

import (
	"encoding/json"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/core/crdcheck"
)

type (
	crdType    = apiextensionsv1.CustomResourceDefinition
	schemaType = apiextensionsv1.JSONSchemaProps
)

// spec is the schema of a CRD whose spec has the given properties, in YAML flow or block style.
func spec(properties string) string {
	return "{type: object, properties: {spec: {type: object, properties: {" + properties + "}}}}"
}

// newCRD returns widgets.example.com with the given versions; the last one is stored. A version is
// its name and its schema.
func newCRD(t testing.TB, versions ...string) *crdType {
	t.Helper()
	crd := &crdType{}
	crd.Name = "widgets.example.com"
	crd.Spec.Group = "example.com"
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"}
	crd.Spec.Scope = apiextensionsv1.NamespaceScoped
	for i := 0; i < len(versions); i += 2 {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: versions[i], Served: true, Storage: i == len(versions)-2,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: newSchema(t, versions[i+1])},
		})
	}
	return crd
}

// installed returns a CRD as the API server has it.
func installed(crd *crdType, stored ...string) *crdType {
	crd = crd.DeepCopy()
	crd.UID, crd.ResourceVersion, crd.Generation = "1", "7", 1
	crd.Status.StoredVersions = stored
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue},
		{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
	}
	crd.Status.AcceptedNames = crd.Spec.Names
	return crd
}

func newSchema(t testing.TB, text string) *schemaType {
	t.Helper()
	schema := &schemaType{}
	if err := yaml.UnmarshalStrict([]byte(text), schema); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return schema
}

// object returns a Widget in JSON's Go types, as an API client decodes it.
func object(t testing.TB, version, name, content string) map[string]any {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	decoded := map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(string(encoded)))
	decoder.UseNumber()
	if err := decoder.Decode(&decoded); err != nil {
		t.Fatal(err)
	}
	decoded = numbers(decoded).(map[string]any)
	decoded["apiVersion"], decoded["kind"] = "example.com/"+version, "Widget"
	decoded["metadata"] = map[string]any{"namespace": "default", "name": name}
	return decoded
}

func numbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = numbers(value[key])
		}
	case []any:
		for i := range value {
			value[i] = numbers(value[i])
		}
	case json.Number:
		if n, err := value.Int64(); err == nil {
			return n
		}
		f, _ := value.Float64()
		return f
	}
	return value
}

// texts returns what the findings say; errors begin with "error: ", hard ones with "hard: ".
func texts(findings []crdcheck.Finding) []string {
	var all []string
	for i := range findings {
		prefix := "error: "
		switch {
		case findings[i].Warning:
			prefix = "warning: "
		case findings[i].Hard:
			prefix = "hard: "
		}
		all = append(all, prefix+findings[i].String())
	}
	return all
}
