// Command schemas writes the schemas of Kubernetes' kinds, with which packages are validated:
// Kubernetes' OpenAPI definitions without descriptions, and which kinds are namespaced. It reads
// Kubernetes' source from the module cache, and downloads it if necessary.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: schemas FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

func run(target string) error {
	// `go list -m` would return no directory if the module has not been downloaded yet.
	answer, err := exec.CommandContext(context.Background(), "go", "mod", "download", "-json", "k8s.io/kubernetes").Output()
	if err != nil {
		return fmt.Errorf("download Kubernetes' source: %w: %s", err, answer)
	}
	var module struct {
		Dir string `json:"Dir"`
	}
	if err := json.Unmarshal(answer, &module); err != nil {
		return fmt.Errorf("find Kubernetes' source: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "api", "openapi-spec", "swagger.json"))
	if err != nil {
		return err
	}
	var swagger struct {
		Definitions map[string]any                        `json:"definitions"`
		Paths       map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(text, &swagger); err != nil {
		return err
	}
	for name, definition := range swagger.Definitions {
		strip(definition)
		if strings.HasSuffix(name, ".api.resource.Quantity") { // published as a string, but numbers are valid too
			definition.(map[string]any)["format"] = "quantity"
		}
	}
	namespaced, err := scopes(swagger.Paths)
	if err != nil {
		return err
	}
	out, err := json.Marshal(map[string]any{"definitions": swagger.Definitions, "namespaced": namespaced})
	if err != nil {
		return err
	}
	var file bytes.Buffer
	w, err := gzip.NewWriterLevel(&file, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(out); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(target, file.Bytes(), 0o644) //nolint:gosec // a source file
}

// strip removes all descriptions, but not properties with the name description.
func strip(node any) {
	switch n := node.(type) {
	case map[string]any:
		if _, text := n["description"].(string); text {
			delete(n, "description")
		}
		for _, child := range n {
			strip(child)
		}
	case []any:
		for _, child := range n {
			strip(child)
		}
	}
}

// scopes returns whether a kind is namespaced, for each kind that can be created. Keys are
// "apps/v1/Deployment", "v1/Pod".
func scopes(paths map[string]map[string]json.RawMessage) (map[string]bool, error) {
	namespaced := map[string]bool{}
	for path, verbs := range paths {
		post, ok := verbs["post"]
		if !ok || strings.HasSuffix(path, "}") || strings.Count(path[strings.LastIndex(path, "/"):], "{") > 0 {
			continue
		}
		if strings.Contains(strings.Replace(path, "{namespace}", "", 1), "{") { // a subresource
			continue
		}
		var operation struct {
			Kind *struct {
				Group   string `json:"group"`
				Kind    string `json:"kind"`
				Version string `json:"version"`
			} `json:"x-kubernetes-group-version-kind"`
		}
		if err := json.Unmarshal(post, &operation); err != nil {
			return nil, err
		}
		if k := operation.Kind; k != nil {
			version := k.Version
			if k.Group != "" {
				version = k.Group + "/" + version
			}
			namespaced[version+"/"+k.Kind] = strings.Contains(path, "{namespace}")
		}
	}
	return namespaced, nil
}
