package functions

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/starlinghq/starling/pkg/core/kptpkg/schema"
)

// validateSchemas validates objects against the schemas of their kinds: those of Kubernetes, and those of the
// CustomResourceDefinitions among the objects. What is wrong is a result each.
func validateSchemas(c *call) error {
	strict, ignoreMissing, skip, err := c.validationConfig()
	if err != nil {
		return err
	}
	var custom schema.Custom
	for _, item := range c.items {
		if err := custom.Add(item.Node); err != nil {
			c.of(item, Error, "spec", "is no CustomResourceDefinition that can be read: %v", err)
		}
	}
	for _, item := range c.items {
		if slices.Contains(skip, item.Kind()) || item.isKptfile() || item.Local() {
			continue // what is never applied needs no schema
		}
		s := schema.Builtin(item.APIVersion(), item.Kind())
		if s == nil {
			s = custom.Find(item.APIVersion(), item.Kind())
		}
		if s == nil {
			if !ignoreMissing {
				c.of(item, Error, "", "no schema is known of kind %s in %s; a CustomResourceDefinition in the package gives one, "+
					"skip_kinds and ignore_missing_schemas do without", item.Kind(), item.APIVersion())
			}
			continue
		}
		if item.Name() == "" && text(get(item.root(), "metadata", "generateName")) == "" {
			c.of(item, Error, "metadata.name", "is required")
		}
		for _, violation := range s.Validate(item.Node, strict) {
			c.of(item, Error, violation.Path, "%s", violation.Message)
		}
	}
	return nil
}

func (c *call) validationConfig() (strict, ignoreMissing bool, skip []string, err error) {
	if c.config == nil {
		return false, false, nil, nil
	}
	values, err := c.values("schema_location", "additional_schema_locations", "ignore_missing_schemas", "skip_kinds", "strict")
	if err != nil {
		return false, false, nil, err
	}
	if values["schema_location"] != "" || values["additional_schema_locations"] != "" {
		return false, false, nil, errors.New("functionConfig: data.schema_location and data.additional_schema_locations are not supported: " +
			"functions have no network and no files; put CustomResourceDefinitions in the package")
	}
	boolean := func(key string) bool {
		value := values[key]
		if value == "" {
			return false
		}
		parsed, errParse := strconv.ParseBool(value)
		if errParse != nil {
			err = fmt.Errorf("functionConfig: data.%s is %q, want true or false", key, value)
		}
		return parsed
	}
	strict, ignoreMissing = boolean("strict"), boolean("ignore_missing_schemas")
	for kind := range strings.SplitSeq(values["skip_kinds"], ",") {
		if kind = strings.TrimSpace(kind); kind != "" {
			skip = append(skip, kind)
		}
	}
	return strict, ignoreMissing, skip, err
}
