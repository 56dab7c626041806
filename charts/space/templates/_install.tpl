{{- /* The Job of a release installs what Starling needs in the space, and says in its log what is missing. */}}
{{- define "starling.space.install" }}
{{- $name := printf "%s-install" .space.name }}
{{- $args := merge (dict "component" "install") . }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
automountServiceAccountToken: {{ eq .space.type "host" }}
{{- if eq .space.type "host" }}
---
# The hosting cluster is the space: only an administrator can grant all the rights that controllers get there.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: starling:{{ .root.Release.Namespace }}:{{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: cluster-admin
subjects:
- kind: ServiceAccount
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}
{{- with .space.install.values }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
data:
  values.yaml: |
    {{- toYaml . | nindent 4 }}
{{- end }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}-{{ .root.Release.Revision }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  backoffLimit: 10
  template:
    metadata: {{- include "starling.space.pod-metadata" $args | nindent 6 }}
    spec:
      {{- include "starling.space.pod" $args | nindent 6 }}
      serviceAccountName: {{ $name }}
      restartPolicy: OnFailure
      containers:
      - name: install
        {{- include "starling.space.container" $args | nindent 8 }}
        args:
        - space
        - install
        - --type={{ .space.kind }}
        - --name={{ .space.name }}
        - --timeout={{ .space.install.timeout }}
        {{- if ne .space.type "host" }}
        - --kubeconfig=/admin/kubeconfig
        {{- end }}
        {{- if and (eq .space.type "hosted") (eq .space.kind "its") }}
        - --webhook-url=https://{{ .space.name }}-ocm.{{ .root.Release.Namespace }}.svc
        - --webhook-ca=/ocm/ca.crt
        {{- with .space.apiServer.url }}
        - --server={{ . }}
        - --server-ca=/admin/ca.crt
        {{- end }}
        {{- end }}
        {{- with .space.packageServer }}
        - --package-server={{ . }}
        - --package-server-ca=/package-server/ca.crt
        {{- end }}
        {{- if .space.install.values }}
        - --values=/values/values.yaml
        {{- end }}
        resources: {{- toYaml .space.jobs.resources | nindent 10 }}
        volumeMounts:
        {{- if ne .space.type "host" }}
        - {name: admin, mountPath: /admin, readOnly: true}
        {{- end }}
        {{- if and (eq .space.type "hosted") (eq .space.kind "its") }}
        - {name: ocm, mountPath: /ocm, readOnly: true}
        {{- end }}
        {{- if .space.packageServer }}
        - {name: package-server, mountPath: /package-server, readOnly: true}
        {{- end }}
        {{- if .space.install.values }}
        - {name: values, mountPath: /values, readOnly: true}
        {{- end }}
        - {name: tmp, mountPath: /tmp}
      volumes:
      {{- if ne .space.type "host" }}
      - name: admin
        {{- include "starling.space.admin" . | nindent 8 }}
      {{- end }}
      {{- if and (eq .space.type "hosted") (eq .space.kind "its") }}
      - name: ocm
        secret: {secretName: {{ .space.name }}-ocm, items: [{key: ca.crt, path: ca.crt}]}
      {{- end }}
      {{- if .space.packageServer }}
      - name: package-server
        secret: {secretName: {{ .space.name }}-package-server-tls, items: [{key: ca.crt, path: ca.crt}]}
      {{- end }}
      {{- if .space.install.values }}
      - name: values
        configMap: {name: {{ $name }}}
      {{- end }}
      - name: tmp
        emptyDir: {}
{{- end }}

{{- /* admin returns the volume with the kubeconfig of an administrator of the space. */}}
{{- define "starling.space.admin" -}}
{{- if eq .space.type "hosted" -}}
secret:
  secretName: {{ .space.name }}-admin
  items:
  - {key: kubeconfig, path: kubeconfig}
  - {key: ca.crt, path: ca.crt}
{{- else -}}
secret:
  secretName: {{ required (printf "space %q: a space of type external needs kubeconfigSecret" .space.name) .space.kubeconfigSecret }}
  items:
  - {key: {{ .space.kubeconfigKey | default "kubeconfig" }}, path: kubeconfig}
{{- end }}
{{- end }}
