{{- /*
The Job of a release requests the tokens with which controllers connect to the space, as soon as the Job "install" has
created their ServiceAccounts. The CronJob renews them.
*/}}
{{- define "starling.space.credentials" }}
{{- $name := printf "%s-credentials" .space.name }}
{{- $args := merge (dict "component" "credentials") . }}
{{- $secrets := list }}
{{- range include "starling.space.credential-flags" . | splitList "\n" }}
{{- $secrets = append $secrets (splitList "=" . | first) }}
{{- end }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
{{ include "starling.space.secret-role" (merge (dict "objectName" $name "secrets" $secrets) $args) }}
{{- if eq .space.type "host" }}
{{ include "starling.space.credentials-host" (merge (dict "objectName" $name) $args) }}
{{- end }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}-{{ .root.Release.Revision }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  backoffLimit: 10
  template: {{- include "starling.space.credentials-pod" $args | nindent 4 }}
---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  schedule: {{ .space.credentials.schedule | quote }}
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      backoffLimit: 10
      template: {{- include "starling.space.credentials-pod" $args | nindent 8 }}
{{- end }}

{{- /* credential-flags returns a line NAME=NAMESPACE/SERVICEACCOUNT for each credential. */}}
{{- define "starling.space.credential-flags" -}}
{{- $all := list }}
{{- if and (eq .space.type "hosted") (eq .space.kind "its") }}
{{- $hub := "open-cluster-management-hub" }}
{{- $all = list (printf "ocm-registration=%s/registration-controller-sa" $hub)
  (printf "ocm-addon-manager=%s/addon-manager-controller-sa" $hub)
  (printf "ocm-webhooks=%s/registration-webhook-sa" $hub) }}
{{- end }}
{{- join "\n" (concat $all (.space.credentials.accounts | default list)) }}
{{- end }}

{{- define "starling.space.credentials-pod" -}}
metadata: {{- include "starling.space.pod-metadata" . | nindent 2 }}
spec:
  {{- include "starling.space.pod" . | nindent 2 }}
  serviceAccountName: {{ .space.name }}-credentials
  restartPolicy: OnFailure
  containers:
  - name: credentials
    {{- include "starling.space.container" . | nindent 4 }}
    args:
    - space
    - credentials
    - --space={{ .space.name }}
    - --namespace={{ .root.Release.Namespace }}
    - --secret-prefix={{ .space.name }}-
    - --timeout={{ .space.install.timeout }}
    {{- include "starling.space.admin-flags" . | nindent 4 }}
    {{- range include "starling.space.credential-flags" . | splitList "\n" }}
    - --credential={{ . }}
    {{- end }}
    resources: {{- toYaml .space.jobs.resources | nindent 6 }}
    volumeMounts:
    {{- if eq .space.type "hosted" }}
    - {name: admin, mountPath: /admin, readOnly: true}
    {{- end }}
    - {name: tmp, mountPath: /tmp}
  volumes:
  {{- if eq .space.type "hosted" }}
  - name: admin
    {{- include "starling.space.admin" . | nindent 4 }}
  {{- end }}
  - name: tmp
    emptyDir: {}
{{- end }}

{{- /*
credentials-host grants the right to request tokens in the hosting cluster, where it is the space. The Role is in the
Namespace of the ServiceAccounts. Another release may have it, or "starling space install" of an earlier one.
*/}}
{{- define "starling.space.credentials-host" }}
{{- $role := printf "starling:%s:%s" .root.Release.Namespace .objectName }}
{{- range $namespace, $_ := include "starling.space.accounts" . | fromYaml }}
{{- $existing := lookup "v1" "Namespace" "" $namespace }}
{{- $owner := dig "metadata" "annotations" (dict) $existing }}
{{- $own := and (eq $.root.Release.Name (dig "meta.helm.sh/release-name" "" $owner)) (eq $.root.Release.Namespace (dig "meta.helm.sh/release-namespace" "" $owner)) }}
{{- if or (not $existing) $own }}
---
apiVersion: v1
kind: Namespace
metadata:
  name: {{ $namespace }}
  labels: {{- include "starling.space.labels" $ | nindent 4 }}
  annotations: {helm.sh/resource-policy: keep}
{{- end }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $role }}
  labels: {{- include "starling.space.labels" . | nindent 4 }}
rules:
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [starling-system]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $role }}
  labels: {{- include "starling.space.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $role }}
subjects:
- kind: ServiceAccount
  name: {{ .objectName }}
  namespace: {{ .root.Release.Namespace }}
{{- range $namespace, $accounts := include "starling.space.accounts" . | fromYaml }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: starling:{{ $.root.Release.Namespace }}:{{ $.objectName }}
  namespace: {{ $namespace }}
  labels: {{- include "starling.space.labels" $ | nindent 4 }}
rules:
- apiGroups: [""]
  resources: [serviceaccounts/token]
  resourceNames: {{- toYaml $accounts | nindent 2 }}
  verbs: [create]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: starling:{{ $.root.Release.Namespace }}:{{ $.objectName }}
  namespace: {{ $namespace }}
  labels: {{- include "starling.space.labels" $ | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: starling:{{ $.root.Release.Namespace }}:{{ $.objectName }}
subjects:
- kind: ServiceAccount
  name: {{ $.objectName }}
  namespace: {{ $.root.Release.Namespace }}
{{- end }}
{{- end }}

{{- /* accounts returns the names of the ServiceAccounts of credentials by their namespaces. */}}
{{- define "starling.space.accounts" -}}
{{- $all := dict }}
{{- range include "starling.space.credential-flags" . | splitList "\n" }}
{{- $account := splitList "=" . | last | splitList "/" }}
{{- $_ := set $all (first $account) (append (get $all (first $account) | default list) (last $account)) }}
{{- end }}
{{- toYaml $all }}
{{- end }}
