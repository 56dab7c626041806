package wdsserver

import (
	"errors"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
)

// starlingNamespace has the Service of the package-server, and Starling's ServiceAccounts. Nothing
// in it is ever workload.
const starlingNamespace = "starling-system"

// ignoreForeignAPIs makes the aggregator take the APIServices of servers that are not Starling's
// for those of an API that this process serves itself. Since it does not serve it, discovery has no
// such API, and no request leaves the process. It must be called before the server runs.
func ignoreForeignAPIs(server *aggregatorapiserver.APIAggregator) error {
	return server.APIRegistrationInformers.Apiregistration().V1().APIServices().Informer().SetTransform(func(obj any) (any, error) {
		api, ok := obj.(*apiregistrationv1.APIService)
		if !ok {
			return nil, errors.New("not an APIService")
		}
		if !isForeign(api) {
			return api, nil
		}
		local := api.DeepCopy()
		local.Spec.Service = nil
		return local, nil
	})
}

// isForeign reports whether an APIService names a Service that is not Starling's.
func isForeign(api *apiregistrationv1.APIService) bool {
	return api.Spec.Service != nil && api.Spec.Service.Namespace != starlingNamespace
}
