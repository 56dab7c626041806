package charts_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/starlinghq/starling/pkg/certificates"
	spacesecrets "github.com/starlinghq/starling/pkg/hostedspace/secrets"
	"github.com/starlinghq/starling/pkg/install/manifest"
	"github.com/starlinghq/starling/test/testenv"
)

// TestCertificateOfTheURL runs etcd and the API server of a space with the flags that the chart
// gives them, as processes, and with the Secrets that "starling space certificates" makes. Clients
// outside see the certificate of their company, clients in the hosting cluster that of the space,
// and each verifies it with the authority in its kubeconfig.
func TestCertificateOfTheURL(t *testing.T) {
	space := hosting(t)
	h := inNamespace(t, space, testenv.Name(t))
	r, err := h.install(t, "space", "fleet", matrix(t, "space")["certificate"], "server")
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"its2.example.com", "its2.internal.example.com"}
	client, err := kubernetes.NewForConfig(space.Config)
	if err != nil {
		t.Fatal(err)
	}
	s := spacesecrets.Space{Name: "its2", Namespace: h.namespace, URL: "https://its2.example.com", URLSecret: "its2-external"}
	err = spacesecrets.Ensure(t.Context(), client, s, time.Now())
	if err == nil || !strings.Contains(err.Error(), `Secret "its2-external" with its certificate does not exist yet`) {
		t.Errorf("without the certificate: %v", err)
	}
	// What cert-manager would do.
	company, authority, err := certificates.EnsureAuthority(certificates.Pair{}, "company", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := company.Ensure(certificates.Pair{}, certificates.Leaf{User: hosts[0], Names: hosts, Life: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	space.Create(t, secrets, h.namespace, s.URLSecret, map[string]any{"type": "kubernetes.io/tls", "data": map[string]any{
		"tls.crt": pair.Certificate, "tls.key": pair.Key, "ca.crt": authority.Certificate,
	}})
	if err := spacesecrets.Ensure(t.Context(), client, s, time.Now()); err != nil {
		t.Fatal(err)
	}

	p := &pods{t: t, space: space, namespace: h.namespace, objects: r.Manifest}
	etcd, server := testenv.Address(t), testenv.Address(t)
	_, port, _ := net.SplitHostPort(server)
	p.start(&appsv1.StatefulSet{}, "its2-etcd", map[string]string{
		"listen": etcd, "advertise": etcd, "data-dir": t.TempDir(), "metrics-listen": testenv.Address(t), "no-fsync": "true",
	})
	p.start(&appsv1.Deployment{}, "its2-apiserver", map[string]string{
		"wait-for": "https://" + etcd, "etcd-servers": "https://" + etcd, "secure-port": port, "advertise-address": "127.0.0.1", "bind-address": "127.0.0.1",
	})
	admin := testenv.Into[corev1.Secret](t, space.Get(t, secrets, h.namespace, "its2-admin"))
	for key, want := range map[string][]byte{"kubeconfig-external": authority.Certificate, "kubeconfig": admin.Data["ca.crt"]} {
		config, err := clientcmd.RESTConfigFromKubeConfig(admin.Data[key])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(config.CAData, want) {
			t.Errorf("%s has another authority", key)
		}
		// The name is that in the kubeconfig. Only the address is ours.
		config.ServerName = strings.TrimPrefix(config.Host, "https://")
		config.Host = "https://" + server
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			_, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
			return err == nil, fmt.Sprintf("with %s: %v", key, err)
		})
	}
	for name, issuer := range map[string]string{hosts[0]: "company", hosts[1]: "company", "its2." + h.namespace + ".svc": "its2-ca", "": "its2-ca"} {
		if got := issuerAt(t, server, name); got != issuer {
			t.Errorf("the certificate for name %q is of %q, want %q", name, got, issuer)
		}
	}
}

// issuerAt returns who has signed the certificate that a server shows to clients that expect this
// name.
func issuerAt(t *testing.T, server, name string) string {
	t.Helper()
	var issuer string
	dialer := &tls.Dialer{Config: &tls.Config{
		ServerName: name, InsecureSkipVerify: true, // the issuer is what is tested
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			certificate, err := x509.ParseCertificate(raw[0])
			if err == nil {
				issuer = certificate.Issuer.CommonName
			}
			return err
		},
	}}
	connection, err := dialer.DialContext(t.Context(), "tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	connection.Close()
	return issuer
}

// pods runs the pods of a release as processes.
type pods struct {
	t         *testing.T
	space     *testenv.Space
	namespace string
	objects   string
}

// start starts the container of a workload, with some flags replaced. Its Secrets are directories.
func (p *pods) start(into runtime.Object, name string, flags map[string]string) {
	t := p.t
	t.Helper()
	objs, err := manifest.Parse(strings.NewReader(p.objects))
	if err != nil {
		t.Fatal(err)
	}
	var pod *corev1.PodSpec
	for _, obj := range objs {
		if obj.GetName() != name || (obj.GetKind() != "StatefulSet" && obj.GetKind() != "Deployment") {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
			t.Fatal(err)
		}
	}
	switch o := into.(type) {
	case *appsv1.StatefulSet:
		pod = &o.Spec.Template.Spec
	case *appsv1.Deployment:
		pod = &o.Spec.Template.Spec
	}
	if pod == nil || len(pod.Containers) != 1 {
		t.Fatalf("%s has no container", name)
	}
	directories := map[string]string{}
	for _, volume := range pod.Volumes {
		if volume.Secret != nil {
			directories[volume.Name] = p.directory(volume.Secret)
		}
	}
	container := &pod.Containers[0]
	var args []string
	rest := maps.Clone(flags)
	for _, arg := range container.Args {
		for _, mount := range container.VolumeMounts {
			if directory := directories[mount.Name]; directory != "" {
				arg = strings.ReplaceAll(arg, mount.MountPath+"/", directory+"/")
			}
		}
		if flag, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "="); flags[flag] != "" {
			arg = "--" + flag + "=" + flags[flag] // where it was: before "--" are those of our command
			delete(rest, flag)
		}
		args = append(args, arg)
	}
	for flag, value := range rest {
		args = append(args, "--"+flag+"="+value)
	}
	bin, err := testenv.Binary()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the context of the test has ended
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			const end = 3000
			t.Logf("%s %s:\n%s", bin, strings.Join(args, " "), text[max(0, len(text)-end):])
		}
		log.Close()
	})
}

// directory writes what a pod would mount of a Secret.
func (p *pods) directory(source *corev1.SecretVolumeSource) string {
	p.t.Helper()
	obj := p.space.Get(p.t, secrets, p.namespace, source.SecretName)
	if obj == nil {
		p.t.Fatalf("Secret %s does not exist", source.SecretName)
	}
	secret := testenv.Into[corev1.Secret](p.t, obj)
	items := source.Items
	if len(items) == 0 {
		for key := range secret.Data {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	directory := p.t.TempDir()
	for _, item := range items {
		if err := os.WriteFile(filepath.Join(directory, item.Path), secret.Data[item.Key], 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	return directory
}
