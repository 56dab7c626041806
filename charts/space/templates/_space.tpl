{{- /*
starling.space renders a space: (dict "root" $ "space" VALUES), where VALUES are those of this chart and
  type            hosted, external, kubeflex or host
  kubeconfigSecret, kubeconfigNamespace, kubeconfigKey   of an external space
  controlPlane    of a space of KubeFlex
  credentials     further credentials, as a list of NAME=NAMESPACE/SERVICEACCOUNT
  servers         names of Services that the API server connects to, by the suffix of the Secret of their certificate
  packageServer   HOST:PORT of the package-server of a WDS

Pods are created before the Secrets that they mount. They wait until the Job "certificates" has written them.
*/}}
{{- define "starling.space" }}
{{- include "starling.space.check" . }}
{{- if eq .space.type "hosted" }}
{{- if not .space.etcd.endpoints }}
{{ include "starling.space.etcd" . }}
{{- if .space.metrics.serviceMonitor.enabled }}
{{ include "starling.space.servicemonitor" . }}
{{- end }}
{{- end }}
{{ include "starling.space.apiserver" . }}
{{ include "starling.space.controller-manager" . }}
{{- if include "starling.space.external-secret" . }}
{{ include "starling.space.external" . }}
{{- end }}
{{- if eq .space.kind "its" }}
{{ include "starling.space.ocm" . }}
{{- end }}
{{- if and .space.backup.enabled (not .space.etcd.endpoints) }}
{{ include "starling.space.backup" . }}
{{- end }}
{{- if .space.networkPolicies }}
{{ include "starling.space.networkpolicies" . }}
{{- end }}
{{- end }}
{{- if or (eq .space.type "hosted") .space.servers }}
{{ include "starling.space.certificates" . }}
{{- end }}
{{- if has .space.type (list "external" "kubeflex") }}
{{ include "starling.space.admin-role" . }}
{{- end }}
{{ include "starling.space.install" . }}
{{- if include "starling.space.credential-flags" . }}
{{ include "starling.space.credentials" . }}
{{- end }}
{{- end }}
