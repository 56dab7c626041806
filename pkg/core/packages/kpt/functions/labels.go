package functions

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/utils"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// metadataOfPods returns the positions of the metadata of pods and of objects that have a template
// of pods.
func metadataOfPods(field string) []fieldSpec {
	return slices.Concat(
		[]fieldSpec{{Path: "metadata/" + field, Create: true}, {Kind: "ReplicationController", Version: "v1", Path: "spec/template/metadata/" + field, Create: true}},
		specs(true, "spec/template/metadata/"+field, "Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "batch/Job"),
		specs(true, "spec/jobTemplate/metadata/"+field, "batch/CronJob"),
		specs(true, "spec/jobTemplate/spec/template/metadata/"+field, "batch/CronJob"),
	)
}

// labelFields returns the fields in which labels are set.
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

// selectorFields returns the selectors in which existing labels get their new values. No labels are
// added to them, because that would change what they select.
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
	if err := c.read("SetLabels", &config, func(data map[string]string) { config.Labels = data }); err != nil {
		return err
	}
	return c.setPairs("label", config.Labels, labelFields(), config.Additional, selectorFields())
}

func setAnnotations(c *call) error {
	var config struct {
		Annotations map[string]string `yaml:"annotations"`
		Additional  []fieldSpec       `yaml:"additionalAnnotationFields"`
	}
	if err := c.read("SetAnnotations", &config, func(data map[string]string) { config.Annotations = data }); err != nil {
		return err
	}
	return c.setPairs("annotation", config.Annotations, metadataOfPods("annotations"), config.Additional, nil)
}

// setPairs sets labels or annotations in all objects: in fields and additional ones, and in
// selectors if they exist there.
func (c *call) setPairs(what string, pairs map[string]string, fields, additional, selectors []fieldSpec) error {
	if len(pairs) == 0 {
		return fmt.Errorf("functionConfig: at least one %s is required", what)
	}
	added := len(fields) + len(additional)
	fields, err := withAdditional(fields, slices.Concat(additional, selectors))
	if err != nil {
		return err
	}
	total := 0
	for _, item := range c.items {
		if item.isKptfile() || what == "label" && c.minor != "v0.1" && item.Local() { // which have no labels of the package
			continue
		}
		for i, spec := range fields {
			set, err := setPairs(item, spec, pairs, i < added)
			if err != nil {
				return err
			}
			total += set
		}
	}
	c.info("set %d %ss in total", total, what)
	return nil
}

// withAdditional returns fields and additional ones with their paths split.
func withAdditional(fields, additional []fieldSpec) ([]fieldSpec, error) {
	all := slices.Concat(fields, additional)
	for i := range all {
		if all[i].Path == "" {
			return nil, errors.New("functionConfig: path is required in each additional field")
		}
		all[i].parts = utils.PathSplitter(all[i].Path, "/")
	}
	return all, nil
}

// setPairs sets pairs in the mappings of a field. If add is false, it sets only existing keys. It
// returns the number of keys that it set.
func setPairs(item Item, spec fieldSpec, pairs map[string]string, add bool) (int, error) {
	if !spec.matches(item) {
		return 0, nil
	}
	set := 0
	err := spec.each(item.root(), yaml.MappingNode, func(n *yaml.Node) error {
		if n.Kind != yaml.MappingNode {
			return fmt.Errorf("%s: %s is not a mapping", item, spec.Path)
		}
		for _, key := range slices.Sorted(maps.Keys(pairs)) {
			switch value := kpt.Get(n, key); {
			case value != nil && value.Kind != yaml.ScalarNode:
				return fmt.Errorf("%s: %s of %s is not a scalar", item, key, spec.Path)
			case value != nil:
				if value.Value != pairs[key] || value.ShortTag() != "!!str" {
					setString(value, pairs[key])
				}
				set++
			case add:
				kpt.Set(n, key, stringNode(pairs[key]))
				set++
			}
		}
		return nil
	})
	return set, err
}
