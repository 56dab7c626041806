package manager

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/starlinghq/starling/pkg/statusagent"
)

//go:embed manifests/*.yaml
var manifestFiles embed.FS

// manifests returns what OCM applies in the WEC for the agent: in the order in which it is applied.
func manifests(cluster string, settings settings, excludeKinds []string) ([]runtime.Object, error) {
	// JSON is YAML in which no value can be taken for syntax.
	functions := template.FuncMap{"json": func(v any) (string, error) {
		text, err := json.Marshal(v)
		return string(text), err
	}}
	templates, err := template.New("").Funcs(functions).Option("missingkey=error").ParseFS(manifestFiles, "manifests/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("parse manifests: %w", err)
	}
	values := map[string]any{
		"Cluster":        cluster,
		"Settings":       settings,
		"Addon":          statusagent.AddonName,
		"Namespace":      statusagent.InstallNamespace,
		"ServiceAccount": statusagent.ServiceAccount,
		"Role":           statusagent.HubRole,
		"Exclude":        strings.Join(excludeKinds, ","),
	}
	files := []string{"rbac.yaml"}
	if settings.Image != "" {
		files = append(files, "deployment.yaml")
	}
	var objects []runtime.Object
	for _, file := range files {
		var text bytes.Buffer
		if err := templates.ExecuteTemplate(&text, file, values); err != nil {
			return nil, fmt.Errorf("render %s: %w", file, err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(&text, 4096)
		for {
			obj := &unstructured.Unstructured{}
			if err := decoder.Decode(obj); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("decode %s: %w", file, err)
			}
			objects = append(objects, obj)
		}
	}
	return objects, nil
}
