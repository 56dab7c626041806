package crdcheck

import (
	"cmp"
	"encoding/json"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// compareExtensions compares the keywords that only Kubernetes has.
func (c *schemaComparer) compareExtensions(at *path, before, after *apiextensionsv1.JSONSchemaProps) {
	switch oldKeeps, newKeeps := preservesUnknown(before), preservesUnknown(after); {
	case oldKeeps && !newKeeps:
		c.add(at, Change{Kind: PreserveUnknownRemoved, Facet: "x-kubernetes-preserve-unknown-fields", Old: "true", Breaking: true})
	case newKeeps && !oldKeeps:
		c.loosened(at, "x-kubernetes-preserve-unknown-fields", "", "true")
	}
	if before.XEmbeddedResource != after.XEmbeddedResource {
		c.add(at, Change{
			Kind: EmbeddedResourceChanged, Facet: "x-kubernetes-embedded-resource",
			Old: isTrue(before.XEmbeddedResource), New: isTrue(after.XEmbeddedResource), Breaking: true,
		})
	}
	c.compareListType(at, before, after)
	if oldType, newType := typeOr(before.XMapType, "granular"), typeOr(after.XMapType, "granular"); oldType != newType {
		c.add(at, Change{Kind: MapTypeChanged, Facet: "x-kubernetes-map-type", Old: oldType, New: newType})
	}
	c.compareRules(at, before.XValidations, after.XValidations)
}

func isTrue(b bool) string {
	if b {
		return "true"
	}
	return ""
}

func typeOr(value *string, otherwise string) string {
	if value == nil {
		return otherwise
	}
	return *value
}

// compareListType compares list types and their keys. The items of a set and of a map are unique,
// so a list that becomes one of them, or a map with fewer keys, accepts less.
func (c *schemaComparer) compareListType(at *path, before, after *apiextensionsv1.JSONSchemaProps) {
	oldType, newType := typeOr(before.XListType, "atomic"), typeOr(after.XListType, "atomic")
	if oldType != newType {
		c.add(at, Change{
			Kind: ListTypeChanged, Facet: "x-kubernetes-list-type", Old: oldType, New: newType, Breaking: newType != "atomic",
		})
		return
	}
	oldKeys, newKeys := slices.Sorted(slices.Values(before.XListMapKeys)), slices.Sorted(slices.Values(after.XListMapKeys))
	if !slices.Equal(oldKeys, newKeys) {
		c.add(at, Change{
			Kind: ListTypeChanged, Facet: "x-kubernetes-list-map-keys", Old: list(oldKeys), New: list(newKeys), Breaking: true,
		})
	}
}

// compareRules compares CEL rules by their text, and by whether they apply to new objects.
func (c *schemaComparer) compareRules(at *path, before, after apiextensionsv1.ValidationRules) {
	type identity struct {
		rule     string
		optional bool
	}
	id := func(rule *apiextensionsv1.ValidationRule) identity {
		return identity{rule.Rule, rule.OptionalOldSelf != nil && *rule.OptionalOldSelf}
	}
	has := func(rules apiextensionsv1.ValidationRules, wanted identity) bool {
		for i := range rules {
			if id(&rules[i]) == wanted {
				return true
			}
		}
		return false
	}
	for i := range after {
		if rule := id(&after[i]); !has(before, rule) {
			c.add(at, Change{Kind: CELRuleAdded, Facet: "x-kubernetes-validations", New: cmp.Or(after[i].Message, rule.rule), Breaking: true})
		}
	}
	for i := range before {
		if rule := id(&before[i]); !has(after, rule) {
			c.loosened(at, "x-kubernetes-validations", rule.rule, "")
		}
	}
}

// compareLogic compares allOf, anyOf, oneOf and not. Their branches are compared as sets; what a
// changed branch accepts is not looked at.
func (c *schemaComparer) compareLogic(at *path, before, after *apiextensionsv1.JSONSchemaProps) {
	type branches = []apiextensionsv1.JSONSchemaProps
	single := func(s *apiextensionsv1.JSONSchemaProps) branches {
		if s == nil {
			return nil
		}
		return branches{*s}
	}
	for _, logic := range []struct {
		facet         string
		before, after branches
		loosened      func(removed, added []string) bool
	}{
		{"allOf", before.AllOf, after.AllOf, func(_, added []string) bool { return len(added) == 0 }},
		{"anyOf", before.AnyOf, after.AnyOf, func(removed, _ []string) bool {
			return len(after.AnyOf) == 0 || len(removed) == 0 && len(before.AnyOf) > 0
		}},
		{"oneOf", before.OneOf, after.OneOf, func(_, _ []string) bool { return len(after.OneOf) == 0 }},
		{"not", single(before.Not), single(after.Not), func(_, _ []string) bool { return after.Not == nil }},
	} {
		oldBranches, newBranches := encodeAll(logic.before), encodeAll(logic.after)
		if slices.Equal(oldBranches, newBranches) {
			continue
		}
		change := Change{Kind: LogicChanged, Facet: logic.facet, Old: list(oldBranches), New: list(newBranches), Breaking: true}
		if logic.loosened(without(oldBranches, newBranches), without(newBranches, oldBranches)) {
			change.Kind, change.Breaking = Loosened, false
		}
		c.add(at, change)
	}
}

// encodeAll returns the branches in one order. An equal branch twice stays twice: oneOf counts.
func encodeAll(branches []apiextensionsv1.JSONSchemaProps) []string {
	var encoded []string
	for i := range branches {
		branch, _ := json.Marshal(&branches[i]) // normalized before
		encoded = append(encoded, string(branch))
	}
	slices.Sort(encoded)
	return encoded
}

// without returns the items that are not among others.
func without(items, others []string) []string {
	return slices.DeleteFunc(slices.Clone(items), func(item string) bool { return slices.Contains(others, item) })
}
