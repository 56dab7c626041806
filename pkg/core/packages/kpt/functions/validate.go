package functions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/schema"
)

// validateSchemas validates objects against the schemas of their kinds: those of Kubernetes, and
// those of the CustomResourceDefinitions among the objects. Each error is a result.
func validateSchemas(c *call) error {
	strict, ignoreMissing, skip, err := c.validationConfig()
	if err != nil {
		return err
	}
	var custom schema.Custom
	for _, item := range c.items {
		if err := custom.Add(item.Node); err != nil {
			c.of(item, Error, "spec", "Invalid value: not a valid CustomResourceDefinition: %v", err)
		}
	}
	for _, item := range c.items {
		if slices.Contains(skip, item.Kind()) || item.isKptfile() || item.Local() {
			continue // objects that are never applied need no schema
		}
		s := schema.Builtin(item.APIVersion(), item.Kind())
		if s == nil {
			s = custom.Find(item.APIVersion(), item.Kind())
		}
		if s == nil {
			if !ignoreMissing {
				c.of(item, Error, "", "no schema for kind %s in %s; add its CustomResourceDefinition to the package, or use skip_kinds or "+
					"ignore_missing_schemas", item.Kind(), item.APIVersion())
			}
			continue
		}
		if item.Name() == "" && kpt.TextOf(kpt.Get(item.root(), "metadata", "generateName")) == "" {
			c.of(item, Error, "metadata.name", "Required value")
		}
		for _, wrong := range s.Validate(item.Node, strict) {
			c.of(item, Error, wrong.Field, "%s", wrong.ErrorBody())
		}
	}
	return nil
}

func (c *call) validationConfig() (strict, ignoreMissing bool, skip []string, err error) {
	if c.config == nil {
		return false, false, nil, nil
	}
	data, err := c.data("schema_location", "additional_schema_locations", "ignore_missing_schemas", "skip_kinds", "strict")
	if err != nil {
		return false, false, nil, err
	}
	if data["schema_location"] != "" || data["additional_schema_locations"] != "" {
		return false, false, nil, errors.New("functionConfig: data.schema_location and data.additional_schema_locations are not supported: " +
			"functions have no network and no files; put CustomResourceDefinitions in the package")
	}
	boolean := func(key string) bool {
		parsed, errParse := strconv.ParseBool(cmp.Or(data[key], "false"))
		if errParse != nil {
			err = fmt.Errorf("functionConfig: data.%s must be true or false, is %q", key, data[key])
		}
		return parsed
	}
	strict, ignoreMissing = boolean("strict"), boolean("ignore_missing_schemas")
	return strict, ignoreMissing, splitList(data["skip_kinds"]), err
}
