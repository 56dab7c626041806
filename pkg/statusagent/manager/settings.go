package manager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/cert"
	"open-cluster-management.io/addon-framework/pkg/addonfactory"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/statusagent"
)

const (
	// pullSecretsVariable is the customized variable with the names of Secrets, separated by
	// commas.
	pullSecretsVariable = "imagePullSecrets"
	// container identifies the agent's container in resource requirements.
	container = "deployments:status-agent:status-agent"
	// inCluster is replaced by the kubelet. The agent connects to its own cluster without a proxy.
	inCluster = "$(KUBERNETES_SERVICE_HOST)"
)

// settings are what an AddOnDeploymentConfig may change in the Deployment of the agent.
type settings struct {
	Image        string
	PullSecrets  []corev1.LocalObjectReference
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	Resources    corev1.ResourceRequirements
	Env          []corev1.EnvVar
	// ProxyCA has the certificate authorities of the proxy, as PEM.
	ProxyCA string
}

// ProxyCAHash changes with ProxyCA, which the agent reads when it starts.
func (s settings) ProxyCAHash() string {
	sum := sha256.Sum256([]byte(s.ProxyCA))
	return hex.EncodeToString(sum[:8])
}

// defaultSettings are those without an AddOnDeploymentConfig.
func defaultSettings(image string) settings {
	return settings{Image: image, Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	}}
}

// settingsOf returns the settings of a config, which is nil if there is none. An error names the
// field that cannot be used. The annotation of OCM on the cluster overrides the registry of the
// image, unless the config does.
func settingsOf(cluster *clusterv1.ManagedCluster, config *addonv1alpha1.AddOnDeploymentConfig, image string) (settings, error) {
	s := defaultSettings(image)
	if image != "" {
		// The getter and the reference are how the function of OCM wants the config.
		addon := &addonv1alpha1.ManagedClusterAddOn{}
		if config != nil {
			addon.Status.ConfigReferences = []addonv1alpha1.ConfigReference{{
				ConfigGroupResource: configResource,
				DesiredConfig:       &addonv1alpha1.ConfigSpecHash{SpecHash: "known"},
			}}
		}
		values, err := addonfactory.GetAgentImageValues(fixed{config}, "image", image)(cluster, addon)
		if err != nil {
			return s, fmt.Errorf("annotation %s of the ManagedCluster: %w", clusterv1.ClusterImageRegistriesAnnotationKey, err)
		}
		s.Image, _ = values["image"].(string)
	}
	if config == nil {
		return s, nil
	}
	spec := &config.Spec
	if at := spec.AgentInstallNamespace; at != "" && at != statusagent.InstallNamespace {
		return s, fmt.Errorf("spec.agentInstallNamespace %q is not supported: the agent always runs in %s", at, statusagent.InstallNamespace)
	}
	if spec.NodePlacement != nil {
		s.NodeSelector, s.Tolerations = spec.NodePlacement.NodeSelector, spec.NodePlacement.Tolerations
	}
	s.Env, s.ProxyCA = proxyEnv(spec.ProxyConfig), string(spec.ProxyConfig.CABundle)
	if s.ProxyCA != "" {
		if _, err := cert.ParseCertsPEM(spec.ProxyConfig.CABundle); err != nil {
			return s, fmt.Errorf("spec.proxyConfig.caBundle has no certificates in PEM: %w", err)
		}
	}
	var err error
	if s.Resources, err = resourcesFor(container, spec.ResourceRequirements, s.Resources); err != nil {
		return s, err
	}
	s.PullSecrets, err = pullSecrets(spec.CustomizedVariables)
	return s, err
}

// fixed is a getter of one config.
type fixed struct {
	config *addonv1alpha1.AddOnDeploymentConfig
}

// Get implements utils.AddOnDeploymentConfigGetter.
func (f fixed) Get(context.Context, string, string) (*addonv1alpha1.AddOnDeploymentConfig, error) {
	return f.config, nil
}

// proxyEnv returns the variables with which the agent uses the proxy for the hub.
func proxyEnv(proxy addonv1alpha1.ProxyConfig) []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, v := range []corev1.EnvVar{{Name: "HTTP_PROXY", Value: proxy.HTTPProxy}, {Name: "HTTPS_PROXY", Value: proxy.HTTPSProxy}} {
		if v.Value != "" {
			env = append(env, v)
		}
	}
	if len(env) == 0 {
		return nil
	}
	no := inCluster
	if proxy.NoProxy != "" {
		no = proxy.NoProxy + "," + inCluster
	}
	return append(env, corev1.EnvVar{Name: "NO_PROXY", Value: no})
}

// resourcesFor returns the last requirements that match the container, or otherwise the default.
func resourcesFor(
	id string, requirements []addonv1alpha1.ContainerResourceRequirements, otherwise corev1.ResourceRequirements,
) (corev1.ResourceRequirements, error) {
	all, err := addonfactory.GetRegexResourceRequirements(requirements)
	if err != nil {
		return otherwise, fmt.Errorf("spec.resourceRequirements: %w", err)
	}
	for _, r := range slices.Backward(all) {
		matches, err := regexp.MatchString(r.ContainerIDRegex, id)
		if err != nil {
			return otherwise, fmt.Errorf("spec.resourceRequirements: %w", err)
		}
		if matches {
			return r.ResourcesRaw, nil
		}
	}
	return otherwise, nil
}

// pullSecrets returns the Secrets that the variables name. Other variables belong to other add-ons,
// which may share the config.
func pullSecrets(variables []addonv1alpha1.CustomizedVariable) ([]corev1.LocalObjectReference, error) {
	var secrets []corev1.LocalObjectReference
	for _, v := range variables {
		if v.Name != pullSecretsVariable {
			continue
		}
		for name := range strings.SplitSeq(v.Value, ",") {
			name = strings.TrimSpace(name)
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
				return nil, fmt.Errorf("spec.customizedVariables: %s: %q is no name of a Secret: %s", pullSecretsVariable, name, problems[0])
			}
			secrets = append(secrets, corev1.LocalObjectReference{Name: name})
		}
	}
	return secrets, nil
}

// configResource are AddOnDeploymentConfigs, in references to them.
var configResource = addonv1alpha1.ConfigGroupResource{
	Group: utils.AddOnDeploymentConfigGVR.Group, Resource: utils.AddOnDeploymentConfigGVR.Resource,
}

// errNotResolved means that a user has chosen a config, and OCM has not written it to the status of
// the add-on yet: with other settings the agent might not start.
var errNotResolved = errors.New("waiting for OCM's addon-manager, which writes the AddOnDeploymentConfig of the add-on into its status.configReferences")

// referenced returns which config an add-on has: nil if it has none. OCM's addon-manager decides
// that, from the add-on, the placements and the default of the ClusterManagementAddOn.
func referenced(addon *addonv1alpha1.ManagedClusterAddOn, management *addonv1alpha1.ClusterManagementAddOn) (*addonv1alpha1.ConfigSpecHash, error) {
	if found, reference := utils.GetAddOnConfigRef(addon.Status.ConfigReferences, configResource.Group, configResource.Resource); found {
		if reference.DesiredConfig == nil {
			return nil, errNotResolved
		}
		return reference.DesiredConfig, nil
	}
	chosen := slices.ContainsFunc(addon.Spec.Configs, func(c addonv1alpha1.AddOnConfig) bool { return c.ConfigGroupResource == configResource })
	if management != nil && slices.ContainsFunc(management.Spec.SupportedConfigs, func(c addonv1alpha1.ConfigMeta) bool { //nolint:staticcheck // OCM 1.2 resolves this field
		return c.ConfigGroupResource == configResource && c.DefaultConfig != nil
	}) {
		chosen = true
	}
	if chosen {
		return nil, errNotResolved
	}
	return nil, nil //nolint:nilnil // no config is no error
}

// settings returns the settings of the agent of a cluster. It reads the config from the hub: a
// cache could be older than the status that asks for it. On an error the agent stays as it is.
func (a *addon) settings(cluster *clusterv1.ManagedCluster, addon *addonv1alpha1.ManagedClusterAddOn) (settings, error) {
	s, err := a.readSettings(cluster, addon)
	if err != nil {
		return s, fmt.Errorf("%w; an agent that runs keeps its settings", err)
	}
	return s, nil
}

func (a *addon) readSettings(cluster *clusterv1.ManagedCluster, addon *addonv1alpha1.ManagedClusterAddOn) (settings, error) {
	management, err := a.management()
	if err != nil && !apierrors.IsNotFound(err) {
		return settings{}, err
	}
	reference, err := referenced(addon, management)
	if err != nil {
		return settings{}, err
	}
	if reference == nil {
		return settingsOf(cluster, nil, a.image)
	}
	name := reference.Namespace + "/" + reference.Name
	config, err := a.config(reference.Namespace, reference.Name)
	if apierrors.IsNotFound(err) {
		return settings{}, fmt.Errorf("AddOnDeploymentConfig %s does not exist", name)
	}
	if err != nil {
		return settings{}, fmt.Errorf("read AddOnDeploymentConfig %s: %w", name, err)
	}
	s, err := settingsOf(cluster, config, a.image)
	if err != nil {
		return s, fmt.Errorf("AddOnDeploymentConfig %s: %w", name, err)
	}
	return s, nil
}
