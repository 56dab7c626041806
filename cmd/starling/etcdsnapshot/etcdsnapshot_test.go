package etcdsnapshot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/starlinghq/starling/cmd/starling/etcdsnapshot"
	"github.com/starlinghq/starling/pkg/hostedspace/backup"
)

// start runs a member of etcd until the test ends, or stop is called.
func start(t *testing.T, dataDir, name, cluster string, client, peer url.URL) (stop func()) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.LogLevel, cfg.InitialCluster = name, dataDir, "error", cluster
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(etcd.Close)
	t.Cleanup(stop)
	return stop
}

// address returns a URL at which nothing listens.
func address(t *testing.T) url.URL {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return url.URL{Scheme: "http", Host: listener.Addr().String()}
}

func connect(t *testing.T, at url.URL) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{at.String()}, DialTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func put(t *testing.T, client *clientv3.Client, key, value string) int64 {
	t.Helper()
	response, err := client.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Revision
}

func get(t *testing.T, client *clientv3.Client, key string) string {
	t.Helper()
	response, err := client.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(response.Kvs) == 0 {
		return ""
	}
	return string(response.Kvs[0].Value)
}

func kubeSystem(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "u-1"}}
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(namespace, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const (
	bindingKey = "/wds1/control.kubestellar.io/bindings/shop"
	binding    = `{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"Binding","metadata":{"name":"shop"}}`
	held       = `{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"Binding","metadata":{"annotations":{"starling.io/hold":"*"},"name":"shop"}}`
)

// backedUp returns a directory with a backup of a space, and the revision at which writes continued
// after it.
func backedUp(t *testing.T) (dir string, later int64) {
	t.Helper()
	at, dir := address(t), t.TempDir()
	peer := address(t)
	stop := start(t, t.TempDir(), "default", "default="+peer.String(), at, peer)
	client := connect(t, at)
	source := etcdsnapshot.Source{Space: "wds1", Type: "wds", Endpoints: []string{at.String()}}
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	if _, err := source.Save(t.Context(), dir, 2, now); err == nil || !strings.Contains(err.Error(), `no space "wds1"`) {
		t.Errorf("a backup of nothing: %v", err)
	}
	put(t, client, backup.SystemKey("wds1"), kubeSystem(t))
	put(t, client, bindingKey, binding)
	put(t, client, "/wds1/a", "1")
	for i := range 3 {
		if i == 2 { // the first member does not respond
			source.Endpoints = []string{"http://127.0.0.1:1", at.String()}
		}
		if _, err := source.Save(t.Context(), dir, 2, now.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, client, "/wds1/a", "2")
	later = put(t, client, "/wds1/b", "3")
	stop()
	return dir, later
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func restoration(dir, dataDir string) *etcdsnapshot.Restoration {
	return &etcdsnapshot.Restoration{
		ID: "r1", Dir: dir, From: backup.Latest, Spaces: []etcdsnapshot.Space{{Name: "wds1", Type: "wds"}}, DataDir: dataDir,
		Member: "a", Cluster: "a=http://127.0.0.1:2380", URLs: []string{"http://127.0.0.1:2380"},
	}
}

// TestRestore: a member has what the backup has, with its marks, and revisions that no client has
// seen. It is made once for each ID, and what it replaces is kept.
func TestRestore(t *testing.T) {
	dir, later := backedUp(t)
	want := []string{"wds1-20260105T100000Z.db", "wds1-20260105T100000Z.json", "wds1-20260105T110000Z.db", "wds1-20260105T110000Z.json"}
	if diff := cmp.Diff(want, files(t, dir)); diff != "" {
		t.Fatalf("backups (-want +got):\n%s", diff)
	}
	info := &backup.Info{}
	if text, err := os.ReadFile(filepath.Join(dir, want[3])); err != nil || json.Unmarshal(text, info) != nil {
		t.Fatal(err)
	}
	if info.UID != "u-1" || info.Keys != 3 || info.Revision != 4 || info.Restored != "" || info.Etcd == "" || info.Bytes == 0 || len(info.SHA256) != 64 {
		t.Errorf("what is known of the backup is %+v", info)
	}

	at, peer := address(t), address(t)
	dataDir := filepath.Join(t.TempDir(), "etcd")
	r := restoration(dir, dataDir)
	// An earlier attempt was killed.
	if err := os.MkdirAll(filepath.Join(dataDir+"-restoring-r1", "data", "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"etcd"}, files(t, filepath.Dir(dataDir))); diff != "" {
		t.Errorf("beside the data directory (-want +got):\n%s", diff)
	}
	stop := start(t, dataDir, "a", "a="+peer.String(), at, peer)
	client := connect(t, at)
	got := map[string]string{}
	for _, key := range []string{bindingKey, "/wds1/a", "/wds1/b"} {
		got[key] = get(t, client, key)
	}
	if diff := cmp.Diff(map[string]string{bindingKey: held, "/wds1/a": "1", "/wds1/b": ""}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if namespace, err := backup.Namespace([]byte(get(t, client, backup.SystemKey("wds1")))); err != nil || namespace.Annotations["starling.io/restored"] != "r1" {
		t.Errorf("the space does not say that it was restored: %v, %v", namespace, err)
	}
	if next := put(t, client, "/wds1/c", "after"); next < later+1_000_000 {
		t.Errorf("the next revision is %d, and clients have seen %d", next, later)
	}
	// A client that watched before must read everything again.
	watch := <-client.Watch(t.Context(), "/wds1/a", clientv3.WithRev(later))
	if watch.CompactRevision == 0 {
		t.Errorf("a watch from revision %d goes on: %+v", later, watch)
	}
	stop()

	again := func(change func(*etcdsnapshot.Restoration)) error {
		r := restoration(dir, dataDir)
		change(r)
		return r.Run(t.Context())
	}
	if err := again(func(*etcdsnapshot.Restoration) {}); err != nil {
		t.Errorf("the same ID: %v", err)
	}
	if err := again(func(r *etcdsnapshot.Restoration) { r.ID = "r2" }); err == nil || !strings.Contains(err.Error(), "--replace") {
		t.Errorf("another ID without --replace: %v", err)
	}
	if err := again(func(r *etcdsnapshot.Restoration) { r.ID, r.Replace, r.From = "r2", true, want[0] }); err != nil {
		t.Errorf("another ID: %v", err)
	}
	if diff := cmp.Diff([]string{"etcd", "etcd-before-r2"}, files(t, filepath.Dir(dataDir))); diff != "" {
		t.Errorf("beside the data directory (-want +got):\n%s", diff)
	}
	stop = start(t, dataDir, "a", "a="+peer.String(), at, peer)
	if value := get(t, connect(t, at), "/wds1/c"); value != "" {
		t.Errorf("what was written after the first restoration is there after the second: %q", value)
	}
	stop()
	start(t, dataDir+"-before-r2", "a", "a="+peer.String(), at, peer)
	if value := get(t, connect(t, at), "/wds1/c"); value != "after" {
		t.Errorf("the data directory that was kept has %q, want what it had", value)
	}
}

// TestRestoreRefuses: a backup that is damaged, or of another space, makes no data directory.
func TestRestoreRefuses(t *testing.T) {
	dir, _ := backedUp(t)
	const newest = "wds1-20260105T110000Z.db"
	for name, c := range map[string]struct {
		change func(*etcdsnapshot.Restoration)
		damage func(string)
		want   string
	}{
		"another space": {change: func(r *etcdsnapshot.Restoration) { r.Spaces[0].Name = "wds2" }, want: `no complete backup of space "wds2"`},
		"another type":  {change: func(r *etcdsnapshot.Restoration) { r.Spaces[0].Type = "its" }, want: `of type "wds"`},
		"a second space that it does not have": {
			change: func(r *etcdsnapshot.Restoration) {
				r.Spaces = append(r.Spaces, etcdsnapshot.Space{Name: "its1", Type: "its"})
			}, want: `no space "its1"`,
		},
		"damaged": {damage: func(path string) {
			data, _ := os.ReadFile(path)
			data[len(data)/2]++
			_ = os.WriteFile(path, data, 0o600)
		}, want: "hash"},
		"truncated": {damage: func(path string) { _ = os.Truncate(path, 4096) }, want: "hash"},
		"empty":     {damage: func(path string) { _ = os.Truncate(path, 0) }, want: "too short"},
	} {
		t.Run(name, func(t *testing.T) {
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if c.damage != nil {
				c.damage(filepath.Join(copied, newest))
			}
			r := restoration(copied, filepath.Join(t.TempDir(), "etcd"))
			if c.change != nil {
				c.change(r)
			}
			if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if _, err := os.Stat(r.DataDir); err == nil {
				t.Error("there is a data directory")
			}
		})
	}
}

// TestRestoreThreeMembers: members that are restored apart from each other become one etcd.
func TestRestoreThreeMembers(t *testing.T) {
	dir, _ := backedUp(t)
	names := []string{"a", "b", "c"}
	clients, peers := map[string]url.URL{}, map[string]url.URL{}
	var cluster []string
	for _, name := range names {
		clients[name], peers[name] = address(t), address(t)
		peer := peers[name]
		cluster = append(cluster, name+"="+peer.String())
	}
	started := make(chan struct{})
	for _, name := range names {
		r := restoration(dir, filepath.Join(t.TempDir(), "etcd"))
		peer := peers[name]
		r.Member, r.Cluster, r.URLs = name, strings.Join(cluster, ","), []string{peer.String()}
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() {
			start(t, r.DataDir, name, r.Cluster, clients[name], peers[name])
			started <- struct{}{}
		}()
	}
	for range names {
		<-started
	}
	hashes := map[string]uint32{}
	for _, name := range names {
		at := clients[name]
		client := connect(t, at)
		if got := get(t, client, bindingKey); got != held {
			t.Errorf("member %s has %q", name, got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		hash, err := client.HashKV(ctx, at.String(), 0)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		hashes[fmt.Sprint(hash.Hash)]++
	}
	if len(hashes) != 1 {
		t.Errorf("the members differ: %v", hashes)
	}
}
