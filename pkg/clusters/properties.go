package clusters

import (
	"maps"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/starlinghq/starling/pkg/core/customize"
)

// Properties returns the data of templates for a cluster: its labels and annotations, and the data
// of its ConfigMap, which is nil if there is none. The last one that has a key counts.
func Properties(cluster string, labels, annotations, data map[string]string) *customize.Properties {
	return customize.NewProperties(cluster, labels, annotations, data)
}

// PropertiesIn returns the data of the ConfigMap of a cluster. Binary data is a property if it is
// valid text.
func PropertiesIn(m *corev1.ConfigMap) map[string]string {
	data := make(map[string]string, len(m.Data)+len(m.BinaryData))
	maps.Copy(data, m.Data)
	for key, value := range m.BinaryData {
		if utf8.Valid(value) {
			data[key] = string(value)
		}
	}
	return data
}
