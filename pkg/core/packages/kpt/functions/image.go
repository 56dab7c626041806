package functions

import (
	"cmp"
	"errors"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// imageFields returns the fields that have images.
func imageFields() []fieldSpec {
	var out []fieldSpec
	for _, pod := range []string{"spec", "spec/template/spec", "spec/jobTemplate/spec/template/spec"} {
		for _, field := range []string{"containers[]/image", "initContainers[]/image", "volumes[]/image/reference"} {
			out = append(out, fieldSpec{Path: pod + "/" + field})
		}
	}
	return out
}

// imageChange is the change of all images of a name.
type imageChange struct {
	Name    string `yaml:"name"`
	NewName string `yaml:"newName"`
	NewTag  string `yaml:"newTag"`
	Digest  string `yaml:"digest"`
}

// replace returns the changed image; false if it has another name.
func (to imageChange) replace(image string) (string, bool) {
	name, tag, digest := kpt.SplitImage(image)
	if name != to.Name {
		return image, false
	}
	name = cmp.Or(to.NewName, name)
	if to.NewTag != "" || to.Digest != "" {
		tag, digest = to.NewTag, to.Digest
	}
	if tag != "" {
		name += ":" + tag
	}
	if digest != "" {
		name += "@" + digest
	}
	return name, true
}

func setImage(c *call) error {
	var config struct {
		Image      imageChange `yaml:"image"`
		Additional []fieldSpec `yaml:"additionalImageFields"`
	}
	err := c.read("SetImage", &config, func(data map[string]string) {
		config.Image = imageChange{data["name"], data["newName"], data["newTag"], data["digest"]}
	}, "name", "newName", "newTag", "digest")
	if err != nil {
		return err
	}
	to := config.Image
	switch {
	case to.Name == "":
		return errors.New("functionConfig: name is required: the name of the image to replace")
	case to.NewName == "" && to.NewTag == "" && to.Digest == "":
		return errors.New("functionConfig: one of newName, newTag and digest is required")
	case to.NewTag != "" && to.Digest != "":
		return errors.New("functionConfig: newTag and digest are mutually exclusive")
	}
	fields, err := withAdditional(imageFields(), config.Additional)
	if err != nil {
		return err
	}
	total := 0
	for _, item := range c.items {
		err := eachText(item, fields, func(n *yaml.Node, path string) {
			before := n.Value
			if image, ok := to.replace(before); ok && image != before {
				setString(n, image)
				c.of(item, Info, strings.ReplaceAll(path, "/", "."), "set image from %s to %s", before, image)
				total++
			}
		})
		if err != nil {
			return err
		}
	}
	if total == 0 {
		c.info("no image %s was changed", to.Name)
	}
	return nil
}
