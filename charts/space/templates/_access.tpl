{{- /*
How Jobs connect to the space as its administrator: with a Secret that they mount (hosted), with one that they read and
say what is wrong with it (external, kubeflex), or as their own ServiceAccount (host).
*/}}

{{- /* admin returns the volume with the kubeconfig of the administrator of a hosted space. */}}
{{- define "starling.space.admin" -}}
secret:
  secretName: {{ .space.name }}-admin
  items:
  - {key: kubeconfig, path: kubeconfig}
{{- end }}

{{- define "starling.space.admin-flags" -}}
{{- if eq .space.type "hosted" -}}
- --kubeconfig=/admin/kubeconfig
{{- else if eq .space.type "external" -}}
{{- $secret := include "starling.space.admin-secret" . | fromYaml -}}
- --kubeconfig-secret={{ $secret.namespace }}/{{ first $secret.names }}
- --kubeconfig-key={{ .space.kubeconfigKey | default "kubeconfig" }}
{{- else if eq .space.type "kubeflex" -}}
- --control-plane={{ include "starling.space.control-plane" . }}
{{- end }}
{{- end }}

{{- /* admin-secret returns the Secret with the kubeconfig: its namespace, and the names that it may have. */}}
{{- define "starling.space.admin-secret" -}}
{{- if eq .space.type "external" -}}
namespace: {{ .space.kubeconfigNamespace | default .root.Release.Namespace }}
names: [{{ .space.kubeconfigSecret }}]
{{- else }}
{{- $plane := include "starling.space.control-plane" . }}
{{- $ref := dig "status" "secretRef" (dict) (lookup "tenancy.kflex.kubestellar.org/v1alpha1" "ControlPlane" "" $plane | default dict) }}
namespace: {{ $ref.namespace | default (printf "%s-system" $plane) }}
{{- /* Without a connection, those that KubeFlex gives to its types of control planes. */}}
names: {{ $ref.name | default "admin-kubeconfig,vc-vcluster,k3s-config,multicluster-controlplane-kubeconfig" | splitList "," | toJson }}
{{- end }}
{{- end }}

{{- /* admin-role lets the Jobs read that Secret, and the ControlPlane that names it. */}}
{{- define "starling.space.admin-role" }}
{{- $name := printf "starling:%s:%s-admin" .root.Release.Namespace .space.name }}
{{- $args := merge (dict "component" "install") . }}
{{- $secret := include "starling.space.admin-secret" . | fromYaml }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ $secret.namespace }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
rules:
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{- toYaml $secret.names | nindent 2 }}
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ $secret.namespace }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects: {{- include "starling.space.admin-subjects" . | nindent 0 }}
{{- if eq .space.type "kubeflex" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
rules:
- apiGroups: [tenancy.kflex.kubestellar.org]
  resources: [controlplanes]
  resourceNames: [{{ include "starling.space.control-plane" . }}]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects: {{- include "starling.space.admin-subjects" . | nindent 0 }}
{{- end }}
{{- end }}

{{- define "starling.space.admin-subjects" -}}
{{- range list "install" "credentials" }}
- kind: ServiceAccount
  name: {{ $.space.name }}-{{ . }}
  namespace: {{ $.root.Release.Namespace }}
{{- end }}
{{- end }}

{{- /*
control-plane returns the name of the ControlPlane of a space: controlPlane, or as KubeStellar finds it, the only one
with the label of its kind.
*/}}
{{- define "starling.space.control-plane" -}}
{{- if .space.controlPlane }}
{{- .space.controlPlane }}
{{- else }}
{{- $label := printf "kflex.kubestellar.io/cptype=%s" .space.kind }}
{{- $names := list }}
{{- if .root.Capabilities.APIVersions.Has "tenancy.kflex.kubestellar.org/v1alpha1/ControlPlane" }}
{{- range (lookup "tenancy.kflex.kubestellar.org/v1alpha1" "ControlPlane" "" "").items }}
{{- if eq $.space.kind (dig "metadata" "labels" "kflex.kubestellar.io/cptype" "" .) }}
{{- $names = append $names .metadata.name }}
{{- end }}
{{- end }}
{{- end }}
{{- if gt (len $names) 1 }}
{{- fail (printf "space %q: there are %d ControlPlanes with label %s: set controlPlane to one of %s" .space.name (len $names) $label (join ", " $names)) }}
{{- else if not $names }}
{{- fail (printf "space %q: there is no ControlPlane with label %s, or helm was not connected to the cluster and could not look for it: set controlPlane to its name" .space.name $label) }}
{{- end }}
{{- first $names }}
{{- end }}
{{- end }}

{{- /* check-control-plane refuses a ControlPlane that has no Secret with a kubeconfig yet. */}}
{{- define "starling.space.check-control-plane" }}
{{- $plane := include "starling.space.control-plane" . }}
{{- if include "starling.connected" . }}
{{- if not (.root.Capabilities.APIVersions.Has "tenancy.kflex.kubestellar.org/v1alpha1/ControlPlane") }}
{{- fail (printf "space %q: this cluster has no ControlPlanes: install KubeFlex, or use type hosted or external" .space.name) }}
{{- end }}
{{- $found := lookup "tenancy.kflex.kubestellar.org/v1alpha1" "ControlPlane" "" $plane }}
{{- if not $found }}
{{- fail (printf "space %q: ControlPlane %q does not exist" .space.name $plane) }}
{{- end }}
{{- if not (dig "status" "secretRef" "name" "" $found) }}
{{- fail (printf "space %q: ControlPlane %q is not ready yet, and has no Secret with a kubeconfig: wait until condition Ready is True, and run helm again" .space.name $plane) }}
{{- end }}
{{- end }}
{{- end }}
