package xpkg

import (
	"fmt"
	"slices"
	"strings"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
)

// What an ImageConfig was used for, as in ImageConfigReference.
const (
	ReasonRewriteImage = "RewriteImage"
	ReasonPullSecret   = "SetImagePullSecret" //nolint:gosec // a reason
)

// Image says how an image is fetched.
type Image struct {
	// Reference is where the image is fetched from: the reference that was asked for, or the one
	// that an ImageConfig rewrites it to.
	Reference
	// PullSecrets are the names of the Secrets with credentials, in the order of precedence.
	PullSecrets []string
	// Configs are the ImageConfigs that were used.
	Configs []pkgv1.ImageConfigReference
}

// Configure returns how an image is fetched. The reference may have no tag and no digest.
// pullSecrets are those of the package; the ones of ImageConfigs come before them.
//
// Starling cannot check signatures. It is an error if an ImageConfig requires that for the image.
func Configure(reference Reference, configs []*pkgv1beta1.ImageConfig, pullSecrets ...string) (Image, error) {
	image := Image{Reference: reference}
	rewrites := func(c *pkgv1beta1.ImageConfig) bool { return c.Spec.RewriteImage != nil }
	if config, prefix := match(reference.String(), configs, rewrites); config != nil {
		text := config.Spec.RewriteImage.Prefix + reference.String()[len(prefix):]
		rewritten, err := parseReference(text)
		if err != nil {
			return image, fmt.Errorf("rewrite image %q: ImageConfig %q: %q %w", reference, config.Name, text, err)
		}
		image.Reference = rewritten
		image.Configs = append(image.Configs, pkgv1.ImageConfigReference{Name: config.Name, Reason: ReasonRewriteImage})
	}
	verifies := func(c *pkgv1beta1.ImageConfig) bool { return c.Spec.Verification != nil }
	if config, _ := match(image.String(), configs, verifies); config != nil {
		return image, fmt.Errorf("verify image %q: ImageConfig %q requires a signature, but Starling does not check signatures: remove spec.verification to install it without a check", image, config.Name)
	}
	authenticates := func(c *pkgv1beta1.ImageConfig) bool {
		return c.Spec.Registry != nil && c.Spec.Registry.Authentication != nil && c.Spec.Registry.Authentication.PullSecretRef.Name != ""
	}
	if config, _ := match(image.String(), configs, authenticates); config != nil {
		image.PullSecrets = append(image.PullSecrets, config.Spec.Registry.Authentication.PullSecretRef.Name)
		image.Configs = append(image.Configs, pkgv1.ImageConfigReference{Name: config.Name, Reason: ReasonPullSecret})
	}
	for _, name := range pullSecrets {
		if name != "" && !slices.Contains(image.PullSecrets, name) {
			image.PullSecrets = append(image.PullSecrets, name)
		}
	}
	return image, nil
}

// match returns the ImageConfig with the longest prefix of an image, among those that have a
// section, and the prefix. Of two with the same prefix, the name decides.
func match(image string, configs []*pkgv1beta1.ImageConfig, has func(*pkgv1beta1.ImageConfig) bool) (best *pkgv1beta1.ImageConfig, longest string) {
	for _, config := range configs {
		if !has(config) {
			continue
		}
		for _, m := range config.Spec.MatchImages {
			prefix := lowerHost(m.Prefix)
			if m.Type != "" && m.Type != pkgv1beta1.MatchPrefix || prefix == "" || !strings.HasPrefix(image, prefix) {
				continue
			}
			if best == nil || len(prefix) > len(longest) || len(prefix) == len(longest) && config.Name < best.Name {
				best, longest = config, prefix
			}
		}
	}
	return best, longest
}

// lowerHost returns a prefix of a reference whose host has lower case.
func lowerHost(prefix string) string {
	host, _, _ := strings.Cut(prefix, "/")
	return strings.ToLower(host) + prefix[len(host):]
}
