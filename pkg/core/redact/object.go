package redact

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Options are what is kept of an object.
type Options struct {
	// ConfigMaps keeps the data of ConfigMaps, apart from credentials.
	ConfigMaps bool
}

// Object returns a copy of an object without what may be secret. The object must be JSON.
func Object(obj map[string]any, o Options) map[string]any {
	out := o.value("", runtime.DeepCopyJSON(obj))
	return out.(map[string]any)
}

// secretName is the name of a field or of an annotation whose value is a credential. Names of
// objects, such as secretName, are none.
var secretName = regexp.MustCompile(`(?i)(password|passwd|passphrase|token|secret|api-?_?key|private-?_?key|credentials?|client-key-data|tls\.key)$`)

// value returns a value of a field without what may be secret.
func (o Options) value(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		return o.fields(name, v)
	case []any:
		for i := range v {
			v[i] = o.value(name, v[i])
		}
		return v
	case string:
		if v != "" && secretName.MatchString(name) {
			return Removed
		}
		const most = 16 << 10
		if len(v) > most {
			return fmt.Sprintf("%s of %d bytes", Removed, len(v))
		}
		return Text(v)
	}
	return value
}

func (o Options) fields(name string, fields map[string]any) any {
	kind, _ := fields["kind"].(string)
	_, object := fields["apiVersion"].(string)
	secret := kind == "Secret" || kind == "SecretList"
	if object && kind == "Config" { // a kubeconfig
		return Removed
	}
	for key, value := range fields {
		switch {
		case key == "managedFields":
			delete(fields, key) // large, and of no use to a reader
		case key == "annotations":
			fields[key] = o.annotations(value)
		case secret && (key == "data" || key == "stringData" || key == "items"):
			fields[key] = Removed
		case object && kind == "ConfigMap" && (key == "data" || key == "binaryData") && (!o.ConfigMaps || key == "binaryData"):
			fields[key] = withoutValues(value)
		case name == "env" && key == "value":
			fields[key] = Removed
		default:
			fields[key] = o.value(key, value)
		}
	}
	if secret {
		withoutAnnotations(fields)
	}
	return fields
}

// annotations returns annotations without copies of whole objects.
func (o Options) annotations(value any) any {
	all, ok := value.(map[string]any)
	if !ok {
		return o.value("", value)
	}
	for key, value := range all {
		if strings.HasSuffix(key, "last-applied-configuration") {
			all[key] = Removed
			continue
		}
		all[key] = o.value(key, value)
	}
	return all
}

// withoutAnnotations removes the annotations of a Secret: any of them can have a copy of its data.
func withoutAnnotations(secret map[string]any) {
	if metadata, ok := secret["metadata"].(map[string]any); ok {
		if _, ok := metadata["annotations"]; ok {
			metadata["annotations"] = Removed
		}
	}
}

// withoutValues keeps the keys of data.
func withoutValues(value any) any {
	data, ok := value.(map[string]any)
	if !ok {
		return Removed
	}
	for key := range data {
		data[key] = Removed
	}
	return data
}
