{{- /* What the templates of one space have in common. Each is called with (dict "root" $ "space" VALUES). */}}

{{- define "starling.space.labels" -}}
app.kubernetes.io/name: {{ .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/part-of: starling
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
starling.io/space: {{ .space.name }}
{{- end }}

{{- define "starling.space.selector" -}}
app.kubernetes.io/name: {{ .component }}
starling.io/space: {{ .space.name }}
{{- end }}

{{- /* image returns the image of a program: (dict "root" $ "image" VALUES "program" NAME). */}}
{{- define "starling.image" -}}
{{ .image.registry }}/{{ .program }}:{{ .image.tag | default (printf "v%s" .root.Chart.AppVersion) }}
{{- end }}

{{- /*
pod-metadata returns the metadata of a pod. Selectors need our labels, so they override those of the user. A pod must
not outlive a restoration of its space: what it knows would be wrong.
*/}}
{{- define "starling.space.pod-metadata" -}}
{{- $own := include "starling.space.labels" . | fromYaml }}
{{- with (.space.restore | default dict).id }}
{{- $own = set $own "starling.io/restored" . }}
{{- end }}
labels: {{- merge $own (.space.podLabels | default dict) | toYaml | nindent 2 }}
{{- with .space.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* pod returns the fields of a pod that do not depend on what it runs. */}}
{{- define "starling.space.pod" -}}
{{- with .space.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with .space.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .space.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .space.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- if .space.affinity }}
affinity: {{- toYaml .space.affinity | nindent 2 }}
{{- else if .spread }}
affinity: {{- include "starling.spread" . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* spread returns an affinity that prefers another node and another zone for each replica. */}}
{{- define "starling.spread" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  {{- range $key, $weight := dict "kubernetes.io/hostname" 100 "topology.kubernetes.io/zone" 50 }}
  - weight: {{ $weight }}
    podAffinityTerm:
      topologyKey: {{ $key }}
      labelSelector:
        matchLabels: {{- include "starling.space.selector" $ | nindent 10 }}
  {{- end }}
{{- end }}

{{- /* container returns the fields of a container of the program "starling". */}}
{{- define "starling.space.container" -}}
image: {{ include "starling.image" (dict "root" .root "image" .space.image "program" "starling") }}
imagePullPolicy: {{ .space.image.pullPolicy }}
{{ include "starling.restricted" . }}
{{- end }}

{{- /* restricted returns what a container may do: nothing but run. */}}
{{- define "starling.restricted" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}
