package functions

import (
	"errors"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// imageFields are where images are written.
func imageFields() []fieldSpec {
	var out []fieldSpec
	for _, pod := range []string{"spec", "spec/template/spec", "spec/jobTemplate/spec/template/spec"} {
		for _, field := range []string{"containers[]/image", "initContainers[]/image", "volumes[]/image/reference"} {
			out = append(out, fieldSpec{Path: pod + "/" + field})
		}
	}
	return out
}

// imageChange is what is made of the images of a name.
type imageChange struct {
	Name    string `yaml:"name"`
	NewName string `yaml:"newName"`
	NewTag  string `yaml:"newTag"`
	Digest  string `yaml:"digest"`
}

// replace returns what an image becomes; false if it has another name.
func (to imageChange) replace(image string) (string, bool) {
	name, tag, digest := splitImage(image)
	if name != to.Name {
		return image, false
	}
	if to.NewName != "" {
		name = to.NewName
	}
	if to.NewTag != "" {
		tag, digest = to.NewTag, ""
	}
	if to.Digest != "" {
		tag, digest = "", to.Digest
	}
	return joinImage(name, tag, digest), true
}

func setImage(c *call) error {
	var config struct {
		Image      imageChange `yaml:"image"`
		Additional []fieldSpec `yaml:"additionalImageFields"`
	}
	if c.configKind() == "SetImage" {
		if err := c.decode("SetImage", &config); err != nil {
			return err
		}
	} else {
		if c.config == nil || c.configKind() != "ConfigMap" {
			_, err := c.configRoot("ConfigMap", "SetImage")
			return err
		}
		values, err := c.values("name", "newName", "newTag", "digest")
		if err != nil {
			return err
		}
		config.Image = imageChange{values["name"], values["newName"], values["newTag"], values["digest"]}
	}
	to := config.Image
	switch {
	case to.Name == "":
		return errors.New("functionConfig: name is required: the image that is replaced")
	case to.NewName == "" && to.NewTag == "" && to.Digest == "":
		return errors.New("functionConfig: one of newName, newTag and digest is required")
	case to.NewTag != "" && to.Digest != "":
		return errors.New("functionConfig: newTag and digest exclude each other")
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

// splitImage splits an image: a colon after the last slash begins a tag, one before is that of a port.
func splitImage(image string) (name, tag, digest string) {
	name, digest, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		name, tag = name[:colon], name[colon+1:]
	}
	return name, tag, digest
}

func joinImage(name, tag, digest string) string {
	if tag != "" {
		name += ":" + tag
	}
	if digest != "" {
		name += "@" + digest
	}
	return name
}
