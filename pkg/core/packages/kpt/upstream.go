package kpt

import (
	"maps"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Upstream is the location of the upstream of a package.
type Upstream struct {
	Type string       `yaml:"type,omitempty"`
	Git  *GitUpstream `yaml:"git,omitempty"`
	// UpdateStrategy is the strategy with which kpt merges upgrades; in Kptfile.upstream only.
	UpdateStrategy string `yaml:"updateStrategy,omitempty"`
}

// GitUpstream is a directory of a git repository. Commit is in Kptfile.upstreamLock only.
type GitUpstream struct {
	Repo      string `yaml:"repo,omitempty"`
	Directory string `yaml:"directory,omitempty"`
	Ref       string `yaml:"ref,omitempty"`
	Commit    string `yaml:"commit,omitempty"`
}

// Info describes the package to users.
type Info struct {
	Site        string
	Description string
	Keywords    []string
}

// UpstreamLock returns the upstream that was last cloned or upgraded to; nil if the package has no
// upstream.
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

// SetUpstream sets upstream, which the package follows, and upstreamLock, from which it was
// created.
func (k *Kptfile) SetUpstream(upstream, lock Upstream) error {
	if err := k.set(upstream, "", "upstream"); err != nil {
		return err
	}
	return k.set(lock, "", "upstreamLock")
}

// SetInfo sets the fields that are not empty.
func (k *Kptfile) SetInfo(info Info) error {
	for _, part := range []struct{ field, text string }{{"site", info.Site}, {"description", info.Description}} {
		if part.text == "" {
			continue
		}
		if err := k.set(part.text, "info", part.field); err != nil {
			return err
		}
	}
	if len(info.Keywords) == 0 {
		return nil
	}
	return k.set(info.Keywords, "info", "keywords")
}

// SetMetadata replaces the labels and the annotations. Entries that do not change retain their
// position, comments and notation.
func (k *Kptfile) SetMetadata(labels, annotations map[string]string) error {
	for _, part := range []struct {
		field         string
		before, after map[string]string
	}{{"labels", k.Labels(), labels}, {"annotations", k.Annotations(), annotations}} {
		if maps.Equal(part.before, part.after) {
			continue
		}
		k.markChanged()
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
		for key := range part.before {
			if _, stays := part.after[key]; stays {
				continue
			}
			if err := node.PipeE(yaml.Clear(key)); err != nil {
				return err
			}
		}
		for _, key := range slices.Sorted(maps.Keys(part.after)) {
			if value, ok := part.before[key]; ok && value == part.after[key] {
				continue
			}
			if err := node.PipeE(yaml.SetField(key, yaml.NewStringRNode(part.after[key]))); err != nil {
				return err
			}
		}
	}
	return nil
}
