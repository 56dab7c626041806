package manager

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/cert"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"sigs.k8s.io/yaml"
)

const agentImage = "docker.io/starling/status-agent:v1"

// config parses the spec of an AddOnDeploymentConfig.
func config(t *testing.T, spec string) *addonv1alpha1.AddOnDeploymentConfig {
	t.Helper()
	c := &addonv1alpha1.AddOnDeploymentConfig{}
	if err := yaml.UnmarshalStrict([]byte(spec), &c.Spec); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSettings(t *testing.T) {
	annotated := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		clusterv1.ClusterImageRegistriesAnnotationKey: `{"registries":[{"source":"docker.io","mirror":"mirror.of.cluster"}]}`,
	}}}
	ca, _, err := cert.GenerateSelfSignedCertKey("proxy.example.com", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*settings)) settings {
		s := defaultSettings(agentImage)
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		cluster *clusterv1.ManagedCluster
		spec    string
		want    settings
	}{
		"Empty": {spec: "{}", want: defaultSettings(agentImage)},
		"RegistryOfConfig": {
			cluster: annotated, spec: "registries: [{source: docker.io/starling, mirror: registry.example.com/s}]",
			want: with(func(s *settings) { s.Image = "registry.example.com/s/status-agent:v1" }),
		},
		"RegistryOfCluster": {
			cluster: annotated, spec: "{}",
			want: with(func(s *settings) { s.Image = "mirror.of.cluster/starling/status-agent:v1" }),
		},
		"Nodes": {
			spec: "nodePlacement: {nodeSelector: {disk: ssd}, tolerations: [{key: infra, operator: Exists}]}",
			want: with(func(s *settings) {
				s.NodeSelector = map[string]string{"disk": "ssd"}
				s.Tolerations = []corev1.Toleration{{Key: "infra", Operator: corev1.TolerationOpExists}}
			}),
		},
		"Proxy": {
			spec: "proxyConfig: {httpProxy: 'http://p:1', httpsProxy: 'https://p:2', noProxy: '.local,10.0.0.0/8', caBundle: " + base64.StdEncoding.EncodeToString(ca) + "}",
			want: with(func(s *settings) {
				s.Env = []corev1.EnvVar{
					{Name: "HTTP_PROXY", Value: "http://p:1"},
					{Name: "HTTPS_PROXY", Value: "https://p:2"},
					{Name: "NO_PROXY", Value: ".local,10.0.0.0/8,$(KUBERNETES_SERVICE_HOST)"},
				}
				s.ProxyCA = string(ca)
			}),
		},
		"ProxyForAll": {
			spec: "proxyConfig: {httpsProxy: 'http://p:2'}",
			want: with(func(s *settings) {
				s.Env = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://p:2"}, {Name: "NO_PROXY", Value: "$(KUBERNETES_SERVICE_HOST)"}}
			}),
		},
		"Resources": {
			spec: `resourceRequirements:
- {containerID: "*:*:*", resources: {limits: {memory: 1Gi}}}
- {containerID: "deployments:status-agent:*", resources: {limits: {memory: 2Gi}}}
- {containerID: "deployments:other:*", resources: {limits: {memory: 3Gi}}}`,
			want: with(func(s *settings) {
				s.Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}}
			}),
		},
		"PullSecrets": {
			spec: "customizedVariables: [{name: imagePullSecrets, value: 'a, b.c'}, {name: other, value: of another add-on}]",
			want: with(func(s *settings) { s.PullSecrets = []corev1.LocalObjectReference{{Name: "a"}, {Name: "b.c"}} }),
		},
		"Namespace": {spec: "agentInstallNamespace: open-cluster-management-agent-addon", want: defaultSettings(agentImage)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := settingsOf(tc.cluster, config(t, tc.spec), agentImage)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			// What they are in the Deployment, which is decoded strictly.
			deployment, ca := rendered(t, got)
			pod := deployment.Spec.Template.Spec
			c := pod.Containers[0]
			has := settings{
				Image: c.Image, PullSecrets: pod.ImagePullSecrets, NodeSelector: pod.NodeSelector, Tolerations: pod.Tolerations,
				Resources: c.Resources, Env: c.Env, ProxyCA: ca,
			}
			if diff := cmp.Diff(tc.want, has); diff != "" {
				t.Errorf("Deployment (-want +got):\n%s", diff)
			}
			mounts := strings.Contains(strings.Join(c.Args, " "), "--hub-ca-bundle=/var/run/proxy/ca.crt") && len(c.VolumeMounts) == 2 && len(pod.Volumes) == 2
			if want := tc.want.ProxyCA != ""; mounts != want {
				t.Errorf("the container has the authorities of the proxy: %t, want %t", mounts, want)
			}
		})
	}
	t.Run("None", func(t *testing.T) {
		got, err := settingsOf(nil, nil, agentImage)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(defaultSettings(agentImage), got); diff != "" {
			t.Errorf("settings (-want +got):\n%s", diff)
		}
	})
	t.Run("WithoutImage", func(t *testing.T) {
		got, err := settingsOf(annotated, config(t, "registries: [{source: '', mirror: m}]"), "")
		if err != nil || got.Image != "" {
			t.Errorf("image %q, error %v: no Deployment is wanted", got.Image, err)
		}
	})
}

// rendered returns the Deployment with the settings, and the certificate authorities of the proxy.
func rendered(t *testing.T, s settings) (deployment *appsv1.Deployment, proxyCA string) {
	t.Helper()
	objects, err := manifests("cluster1", s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		u := obj.(*unstructured.Unstructured)
		switch u.GetKind() {
		case "Deployment":
			deployment = &appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, deployment, true); err != nil {
				t.Fatal(err)
			}
		case "ConfigMap":
			proxyCA, _, _ = unstructured.NestedString(u.Object, "data", "ca.crt")
		}
	}
	return deployment, proxyCA
}

// TestReferenced: while a config that a user chose is not resolved, the agent is not deployed with
// other settings.
func TestReferenced(t *testing.T) {
	hash := &addonv1alpha1.ConfigSpecHash{ConfigReferent: addonv1alpha1.ConfigReferent{Namespace: "its", Name: "c"}}
	status := func(r *addonv1alpha1.ConfigSpecHash) addonv1alpha1.ManagedClusterAddOnStatus {
		return addonv1alpha1.ManagedClusterAddOnStatus{ConfigReferences: []addonv1alpha1.ConfigReference{
			{ConfigGroupResource: addonv1alpha1.ConfigGroupResource{Group: "other", Resource: "things"}},
			{ConfigGroupResource: configResource, DesiredConfig: r},
		}}
	}
	withDefault := clusterManagementAddOn()
	withDefault.Spec.SupportedConfigs[0].DefaultConfig = &hash.ConfigReferent //nolint:staticcheck // OCM 1.2 resolves this field
	ofAddOn := addonv1alpha1.ManagedClusterAddOnSpec{Configs: []addonv1alpha1.AddOnConfig{{ConfigGroupResource: configResource, ConfigReferent: hash.ConfigReferent}}}
	for name, tc := range map[string]struct {
		addon      addonv1alpha1.ManagedClusterAddOn
		management *addonv1alpha1.ClusterManagementAddOn
		want       *addonv1alpha1.ConfigSpecHash
		waits      bool
	}{
		"None":                  {management: clusterManagementAddOn()},
		"NoManagementAddOn":     {},
		"Resolved":              {addon: addonv1alpha1.ManagedClusterAddOn{Status: status(hash)}, want: hash},
		"DefaultNotResolved":    {management: withDefault, waits: true},
		"DefaultResolved":       {addon: addonv1alpha1.ManagedClusterAddOn{Status: status(hash)}, management: withDefault, want: hash},
		"OfAddOnNotResolved":    {addon: addonv1alpha1.ManagedClusterAddOn{Spec: ofAddOn}, management: clusterManagementAddOn(), waits: true},
		"ReferenceWithoutValue": {addon: addonv1alpha1.ManagedClusterAddOn{Status: status(nil)}, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := referenced(&tc.addon, tc.management)
			if (err != nil) != tc.waits {
				t.Errorf("error %v, waits: %t", err, tc.waits)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}
