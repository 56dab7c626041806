package workagent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1informers "open-cluster-management.io/api/client/work/informers/externalversions/work/v1"
	"open-cluster-management.io/ocm/pkg/work/spoke/auth"                           //nolint:depguard // the test asks OCM's agent itself
	"open-cluster-management.io/ocm/pkg/work/spoke/controllers/manifestcontroller" //nolint:depguard // the test asks OCM's agent itself
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/starlinghq/starling/test/testenv"
)

// realAgent is OCM's work agent, for the mailbox and the namespace of a site. It looks at works
// when the test says so.
type realAgent struct {
	factory.Controller
	hub  *workclient.Clientset
	wec  *workclient.Clientset
	kube *kubernetes.Clientset // with all rights
	// These informers do not run: they are caches that the test fills.
	works    workv1informers.ManifestWorkInformer
	accounts workv1informers.AppliedManifestWorkInformer
}

// newAgent returns the agent of a site. It has the rights of that user in the cluster, all if that
// is empty.
func newAgent(t *testing.T, site, user string) *realAgent {
	t.Helper()
	fleet := testenv.Shared(t)
	fleet.Space(t, "its1").Install(t, testenv.OCM(t, "work/v1/0000_00_work.open-cluster-management.io_manifestworks.crd.yaml"))
	fleet.Space(t, "wds1").Install(t, testenv.OCM(t, "work/v1/0000_01_work.open-cluster-management.io_appliedmanifestworks.crd.yaml"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	hubConfig, wecConfig := fleet.Config(t, "its1"), fleet.Config(t, "wds1")
	a := &realAgent{}
	var err error
	a.hub, err = workclient.NewForConfig(hubConfig)
	must(err)
	a.wec, err = workclient.NewForConfig(wecConfig)
	must(err)
	a.kube, err = kubernetes.NewForConfig(wecConfig)
	must(err)
	hub, err := kubernetes.NewForConfig(hubConfig)
	must(err)
	for _, space := range []kubernetes.Interface{hub, a.kube} {
		_, err = space.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: site}}, metav1.CreateOptions{})
		must(err)
	}

	own := rest.CopyConfig(wecConfig)
	own.Impersonate.UserName = user
	kube, err := kubernetes.NewForConfig(own)
	must(err)
	extensions, err := apiextensionsclient.NewForConfig(own)
	must(err)
	objects, err := dynamic.NewForConfig(own)
	must(err)
	httpClient, err := rest.HTTPClientFor(wecConfig)
	must(err)
	mapper, err := apiutil.NewDynamicRESTMapper(wecConfig, httpClient)
	must(err)
	a.works = workinformers.NewSharedInformerFactory(a.hub, 0).Work().V1().ManifestWorks()
	a.accounts = workinformers.NewSharedInformerFactory(a.wec, 0).Work().V1().AppliedManifestWorks()
	a.Controller = manifestcontroller.NewManifestWorkController(objects, kube, extensions, a.hub.WorkV1().ManifestWorks(site), a.works,
		a.works.Lister().ManifestWorks(site), a.wec.WorkV1().AppliedManifestWorks(), a.accounts, nil, "hub-"+site, "agent", mapper,
		auth.NewFactory(wecConfig, kube, a.works, site, mapper).NewExecutorValidator(ctx, false))
	return a
}
