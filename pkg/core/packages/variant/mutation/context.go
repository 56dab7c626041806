package mutation

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

const (
	contextFile = "package-context.yaml"
	contextName = "kptfile.kpt.dev"
)

// setContext changes the package context. A key that is both set and removed is removed.
func setContext(in *Input, files kpt.Files) error {
	pc := in.Variant.Spec.PackageContext
	if pc == nil || len(pc.Data)+len(pc.RemoveKeys) == 0 {
		return nil
	}
	revision := in.Variant.Namespace + "/" + in.Revision
	text, ok := files[contextFile]
	if !ok {
		return fmt.Errorf("spec.packageContext: %s not found in PackageRevisionResources '%s'; packages have one if their Repository has spec.deployment", contextFile, revision)
	}
	found := false
	after, err := kpt.Edit(contextFile, text, func(document *yaml.RNode) (bool, error) {
		if document.GetKind() != "ConfigMap" || document.GetApiVersion() != "v1" || document.GetName() != contextName || found {
			return false, nil
		}
		found = true
		data := document.Field("data")
		if data == nil || data.Value.YNode().Kind != yaml.MappingNode {
			return false, errors.New("no data field found")
		}
		return setData(data.Value, pc.Data, pc.RemoveKeys)
	})
	switch {
	case err != nil:
		return fmt.Errorf("spec.packageContext: %s of PackageRevisionResources '%s': %w", contextFile, revision, err)
	case !found:
		return fmt.Errorf("spec.packageContext: %s of PackageRevisionResources '%s' does not contain ConfigMap %s", contextFile, revision, contextName)
	}
	files[contextFile] = after
	return nil
}

func setData(data *yaml.RNode, set map[string]string, remove []string) (changed bool, err error) {
	gone := map[string]bool{}
	for _, key := range remove {
		gone[key] = true
		if data.Field(key) == nil {
			continue
		}
		if err := data.PipeE(yaml.Clear(key)); err != nil {
			return false, err
		}
		changed = true
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if gone[key] {
			continue
		}
		if field := data.Field(key); field != nil && field.Value.YNode().Kind == yaml.ScalarNode &&
			field.Value.YNode().ShortTag() == yaml.NodeTagString && yaml.GetValue(field.Value) == set[key] {
			continue
		}
		if err := data.PipeE(yaml.SetField(key, yaml.NewStringRNode(set[key]))); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, nil
}
