package kptpkg

import (
	"maps"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Upstream says where a package was cloned from, or upgraded to, last.
type Upstream struct {
	Type string       `yaml:"type,omitempty"`
	Git  *GitUpstream `yaml:"git,omitempty"`
	// UpdateStrategy is how kpt shall merge upgrades; in Kptfile.upstream only.
	UpdateStrategy string `yaml:"updateStrategy,omitempty"`
}

// GitUpstream is a directory of a git repository. Commit stands in Kptfile.upstreamLock only.
type GitUpstream struct {
	Repo      string `yaml:"repo,omitempty"`
	Directory string `yaml:"directory,omitempty"`
	Ref       string `yaml:"ref,omitempty"`
	Commit    string `yaml:"commit,omitempty"`
}

// Info is what the Kptfile tells people about the package.
type Info struct {
	Site        string
	Description string
	Keywords    []string
}

// UpstreamLock is what the content was made from; nil if the package has no upstream.
func (k *Kptfile) UpstreamLock() *Upstream {
	lock := k.read().UpstreamLock
	if lock == nil {
		return nil
	}
	out := *lock
	if lock.Git != nil {
		git := *lock.Git
		out.Git = &git
	}
	return &out
}

// SetUpstream sets upstream and upstreamLock: what the package follows, and what it was made from.
func (k *Kptfile) SetUpstream(upstream, lock Upstream) error {
	if err := k.setField("upstream", upstream); err != nil {
		return err
	}
	return k.setField("upstreamLock", lock)
}

// SetInfo sets what is not empty.
func (k *Kptfile) SetInfo(info Info) error {
	for _, part := range []struct{ field, text string }{{"site", info.Site}, {"description", info.Description}} {
		if part.text == "" {
			continue
		}
		k.touched()
		err := k.node.PipeE(yaml.LookupCreate(yaml.MappingNode, "info"), yaml.SetField(part.field, yaml.NewStringRNode(part.text)))
		if err != nil {
			return err
		}
	}
	if len(info.Keywords) == 0 {
		return nil
	}
	return k.setList(false, info.Keywords, "info", "keywords")
}

// SetMetadata sets the labels and the annotations to these. Values that stay keep their place and their comments; equal ones are left
// as they are written.
func (k *Kptfile) SetMetadata(labels, annotations map[string]string) error {
	for _, part := range []struct {
		field         string
		before, after map[string]string
	}{{"labels", k.Labels(), labels}, {"annotations", k.Annotations(), annotations}} {
		if maps.Equal(part.before, part.after) {
			continue
		}
		k.touched()
		if len(part.after) == 0 {
			if err := k.node.PipeE(yaml.Lookup("metadata"), yaml.Clear(part.field)); err != nil {
				return err
			}
			continue
		}
		node, err := k.node.Pipe(yaml.LookupCreate(yaml.MappingNode, "metadata", part.field))
		if err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(part.before)) {
			if _, stays := part.after[key]; stays {
				continue
			}
			if err := node.PipeE(yaml.Clear(key)); err != nil {
				return err
			}
		}
		for _, key := range slices.Sorted(maps.Keys(part.after)) {
			if value, there := part.before[key]; there && value == part.after[key] {
				continue
			}
			if err := node.PipeE(yaml.SetField(key, yaml.NewStringRNode(part.after[key]))); err != nil {
				return err
			}
		}
	}
	return nil
}

// setField sets a field of the root. What says the same stays as it is written.
func (k *Kptfile) setField(field string, value any) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	node, err := yaml.Parse(string(text))
	if err != nil {
		return err
	}
	if before := k.node.Field(field); before != nil && same(before.Value, node) {
		return nil
	}
	k.touched()
	return k.node.PipeE(yaml.SetField(field, node))
}
