package functions

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// metadataOfPods are where the metadata of pods, and of what makes them, is written.
func metadataOfPods(field string) []fieldSpec {
	return slices.Concat(
		[]fieldSpec{{Path: "metadata/" + field, Create: true}, {Kind: "ReplicationController", Version: "v1", Path: "spec/template/metadata/" + field, Create: true}},
		specs(true, "spec/template/metadata/"+field, "Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "batch/Job"),
		specs(true, "spec/jobTemplate/metadata/"+field, "batch/CronJob"),
		specs(true, "spec/jobTemplate/spec/template/metadata/"+field, "batch/CronJob"),
	)
}

// labelFields are where labels are set.
func labelFields() []fieldSpec {
	return slices.Concat(
		metadataOfPods("labels"),
		specs(true, "spec/volumeClaimTemplates[]/metadata/labels", "apps/StatefulSet"),
		[]fieldSpec{
			{Kind: "Service", Version: "v1", Path: "spec/selector", Create: true},
			{Kind: "ReplicationController", Version: "v1", Path: "spec/selector", Create: true},
		},
		specs(true, "spec/selector/matchLabels", "Deployment", "ReplicaSet", "DaemonSet", "apps/StatefulSet"),
	)
}

// selectorFields are selectors in which labels that are selected by get their new values, but to which none are added: that would
// change what is selected.
func selectorFields() []fieldSpec {
	var out []fieldSpec
	for _, kind := range []string{"apps/Deployment", "apps/StatefulSet"} {
		for _, affinity := range []string{"podAffinity", "podAntiAffinity"} {
			path := "spec/template/spec/affinity/" + affinity
			out = append(out, specs(false, path+"/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels", kind)...)
			out = append(out, specs(false, path+"/requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels", kind)...)
		}
		out = append(out, specs(false, "spec/template/spec/topologySpreadConstraints/labelSelector/matchLabels", kind)...)
	}
	return slices.Concat(out,
		specs(false, "spec/selector/matchLabels", "batch/Job", "policy/PodDisruptionBudget"),
		specs(false, "spec/jobTemplate/spec/selector/matchLabels", "batch/CronJob"),
		specs(false, "spec/podSelector/matchLabels", "networking.k8s.io/NetworkPolicy"),
		specs(false, "spec/ingress/from/podSelector/matchLabels", "networking.k8s.io/NetworkPolicy"),
		specs(false, "spec/egress/to/podSelector/matchLabels", "networking.k8s.io/NetworkPolicy"),
	)
}

func setLabels(c *call) error {
	var config struct {
		Labels     map[string]string `yaml:"labels"`
		Additional []fieldSpec       `yaml:"additionalLabelFields"`
	}
	if err := c.pairsOr("SetLabels", &config, func(pairs map[string]string) { config.Labels = pairs }); err != nil {
		return err
	}
	if len(config.Labels) == 0 {
		return errors.New("functionConfig: at least one label is required")
	}
	fields, err := withAdditional(labelFields(), config.Additional)
	if err != nil {
		return err
	}
	selectors := selectorFields()
	total := 0
	for _, item := range c.items {
		if item.isKptfile() {
			continue
		}
		for _, spec := range fields {
			set, err := setPairs(item, spec, config.Labels, true)
			if err != nil {
				return err
			}
			total += set
		}
		for _, spec := range selectors {
			set, err := setPairs(item, spec, config.Labels, false)
			if err != nil {
				return err
			}
			total += set
		}
	}
	c.info("set %d labels in total", total)
	return nil
}

func setAnnotations(c *call) error {
	var config struct {
		Annotations map[string]string `yaml:"annotations"`
		Additional  []fieldSpec       `yaml:"additionalAnnotationFields"`
	}
	if err := c.pairsOr("SetAnnotations", &config, func(pairs map[string]string) { config.Annotations = pairs }); err != nil {
		return err
	}
	if len(config.Annotations) == 0 {
		return errors.New("functionConfig: at least one annotation is required")
	}
	fields, err := withAdditional(metadataOfPods("annotations"), config.Additional)
	if err != nil {
		return err
	}
	total := 0
	for _, item := range c.items {
		if item.isKptfile() {
			continue
		}
		for _, spec := range fields {
			set, err := setPairs(item, spec, config.Annotations, true)
			if err != nil {
				return err
			}
			total += set
		}
	}
	c.info("set %d annotations in total", total)
	return nil
}

// pairsOr reads a functionConfig that is a ConfigMap of pairs, or of the function's own kind.
func (c *call) pairsOr(kind string, own any, set func(map[string]string)) error {
	if c.configKind() != "ConfigMap" {
		if c.config == nil {
			_, err := c.configRoot("ConfigMap", kind)
			return err
		}
		return c.decode(kind, own)
	}
	read, err := c.pairs()
	if err != nil {
		return err
	}
	pairs := map[string]string{}
	for _, p := range read {
		pairs[p.key] = p.value
	}
	set(pairs)
	return nil
}

func withAdditional(fields, additional []fieldSpec) ([]fieldSpec, error) {
	for _, spec := range additional {
		if err := spec.check(); err != nil {
			return nil, err
		}
	}
	return slices.Concat(fields, additional), nil
}

// setPairs sets pairs in the mappings of a field; if not add, only those that are there. It returns how many it set.
func setPairs(item Item, spec fieldSpec, pairs map[string]string, add bool) (int, error) {
	if !spec.matches(item) {
		return 0, nil
	}
	set := 0
	err := spec.each(item.root(), yaml.MappingNode, func(n *yaml.Node) error {
		if n.Kind != yaml.MappingNode {
			return fmt.Errorf("%s: %s is no mapping", item, spec.Path)
		}
		for _, key := range slices.Sorted(maps.Keys(pairs)) {
			switch value := get(n, key); {
			case value != nil && value.Kind != yaml.ScalarNode:
				return fmt.Errorf("%s: %s of %s is no text", item, key, spec.Path)
			case value != nil:
				if value.Value != pairs[key] || value.ShortTag() != "!!str" {
					setString(value, pairs[key])
				}
				set++
			case add:
				put(n, key, stringNode(pairs[key]))
				set++
			}
		}
		return nil
	})
	return set, err
}
