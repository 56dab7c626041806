package installation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/hostedspace"
	"github.com/starlinghq/starling/pkg/install/chart"
	"github.com/starlinghq/starling/pkg/install/packages"
)

// observe reads what check needs. It writes nothing.
func observe(ctx context.Context, config *rest.Config, client kubernetes.Interface) (*observed, error) {
	serverVersion, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("get the version of the API server: %w", err)
	}
	o := &observed{Version: serverVersion.GitVersion}
	if serverVersion.Major != "" && serverVersion.Minor != "" {
		o.Release = serverVersion.Major + "." + strings.TrimSuffix(serverVersion.Minor, "+") // a mark of some hosted clusters
	}
	who, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask the API server who it takes us for: %w", err)
	}
	o.User = who.Status.UserInfo.Username
	access, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask the API server what we may do: %w", err)
	}
	if o.Administrator = access.Status.Allowed; !o.Administrator {
		return o, nil
	}
	namespace, err := client.CoreV1().Namespaces().Get(ctx, chart.Namespace, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get Namespace %q: %w", chart.Namespace, err)
	}
	if err == nil {
		o.Record = hostedspace.RecordOf(namespace)
	}
	if o.Chart, err = chart.Find(ctx, config); err != nil {
		return nil, err
	}
	if o.Hub, err = serves(client.Discovery(), "cluster.open-cluster-management.io/v1", "managedclusters"); err != nil {
		return nil, err
	}
	if o.Operator, err = serves(client.Discovery(), "operator.open-cluster-management.io/v1", "clustermanagers"); err != nil {
		return nil, err
	}
	info, err := client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, clusterInfo, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get ConfigMap \"%s/%s\": %w", metav1.NamespacePublic, clusterInfo, err)
	}
	o.AddressTaken = err == nil && info.Labels[partOfLabel] != partOf
	o.PackagesTaken, err = packagesTaken(ctx, config)
	return o, err
}

// packagesTaken returns what else than Starling serves packages, or "".
func packagesTaken(ctx context.Context, config *rest.Config) (string, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return "", err
	}
	api, err := client.Resource(packages.APIServices).Get(ctx, packages.APIService, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get APIService %q: %w", packages.APIService, err)
	}
	switch service := packages.ServiceOf(api); service {
	case packages.Service:
		return "", nil
	case "":
		return "a CustomResourceDefinition", nil
	default:
		return fmt.Sprintf("Service %q", service), nil
	}
}

// serves reports whether an API server serves a resource.
func serves(client discovery.DiscoveryInterface, groupVersion, resource string) (bool, error) {
	list, err := client.ServerResourcesForGroupVersion(groupVersion)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("discover %s: %w", groupVersion, err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == resource {
			return true, nil
		}
	}
	return false, nil
}

// errRecordChanged means that another installation runs at the same time.
var errRecordChanged = errors.New("another command changed it at the same time: run this command again")

// writeRecord records in the space what it is, unless it is recorded. It writes only over what the
// caller has checked: of two installations of different types at the same time, one fails.
func writeRecord(ctx context.Context, client kubernetes.Interface, checked, want hostedspace.Record) error {
	if checked == want {
		return nil
	}
	err := tryRecord(ctx, client.CoreV1().Namespaces(), checked, want)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = errRecordChanged
	}
	if err != nil {
		return fmt.Errorf("record type and name of the space in Namespace %q: %w", chart.Namespace, err)
	}
	return nil
}

func tryRecord(ctx context.Context, namespaces interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Namespace, error)
	Create(ctx context.Context, namespace *corev1.Namespace, opts metav1.CreateOptions) (*corev1.Namespace, error)
	Update(ctx context.Context, namespace *corev1.Namespace, opts metav1.UpdateOptions) (*corev1.Namespace, error)
}, checked, want hostedspace.Record,
) error {
	namespace, err := namespaces.Get(ctx, chart.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chart.Namespace}}
		want.WriteTo(namespace)
		_, err = namespaces.Create(ctx, namespace, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	if hostedspace.RecordOf(namespace) != checked {
		return errRecordChanged
	}
	want.WriteTo(namespace)
	_, err = namespaces.Update(ctx, namespace, metav1.UpdateOptions{})
	return err
}
