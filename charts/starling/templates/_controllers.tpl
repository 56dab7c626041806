{{- /* Controllers. Their pods wait until the Jobs of the spaces have written the credentials that they mount. */}}

{{- /* wds-controller is the binding-controller or the transport-controller of a WDS, which is the component. */}}
{{- define "starling.wds-controller" }}
{{- $program := .component }}
{{- $args := list (printf "--wds-name=%s" .space.name) "--wds-kubeconfig=/spaces/wds/kubeconfig" }}
{{- $mounts := list (dict "name" "wds" "path" "/spaces/wds" "secret" (printf "%s-%s" .space.name $program)) }}
{{- range $i, $its := .space.ITSes }}
{{- $args = append $args (printf "--its=%s=/spaces/its/%s/kubeconfig" $its $its) }}
{{- $mounts = append $mounts (dict "name" (printf "its-%d" $i) "path" (printf "/spaces/its/%s" $its) "secret" (printf "%s-%s" $its $program)) }}
{{- end }}
{{- with .space.APIGroups }}
{{- if eq $program "binding-controller" }}
{{- $args = append $args (printf "--api-groups=%s" .) }}
{{- end }}
{{- end }}
{{- include "starling.controller" (merge (dict "program" $program "args" $args "mounts" $mounts "values" (get .root.Values (camelcase $program | untitle))) .) }}
{{- end }}

{{- define "starling.status-agent-manager" }}
{{- $image := .root.Values.statusAgent.image | default (include "starling.image" (dict "root" .root "image" .root.Values.image "program" "status-agent")) }}
{{- $args := list "manager" "--its-kubeconfig=/spaces/its/kubeconfig" (printf "--agent-image=%s" $image) }}
{{- $mounts := list (dict "name" "its" "path" "/spaces/its" "secret" (printf "%s-status-agent-manager" .space.name)) }}
{{- include "starling.controller" (merge (dict "component" "status-agent-manager" "program" "status-agent" "args" $args "mounts" $mounts
  "values" .root.Values.statusAgentManager) .) }}
{{- end }}

{{- define "starling.package-server" }}
{{- $args := list (printf "--wds-name=%s" .space.name) "--wds-kubeconfig=/spaces/wds/kubeconfig"
  "--secure-port=8443" "--tls-cert-file=/tls/server.crt" "--tls-private-key-file=/tls/server.key" }}
{{- $release := .root.Release }}
{{- range .root.Values.functions }}
{{- $args = append $args (printf "--function-host=%s=http://%s-function-%s.%s.svc:8080" .image $release.Name .name $release.Namespace) }}
{{- end }}
{{- $name := printf "%s-package-server" .space.name }}
{{- $mounts := list (dict "name" "wds" "path" "/spaces/wds" "secret" $name) (dict "name" "tls" "path" "/tls" "secret" (printf "%s-tls" $name)) }}
{{- $all := merge (dict "component" "package-server" "program" "package-server" "args" $args "mounts" $mounts "port" 8443
  "values" .root.Values.packageServer) . }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $all | nindent 4 }}
spec:
  selector: {{- include "starling.space.selector" $all | nindent 4 }}
  ports:
  - {name: https, port: 443, targetPort: https}
{{- if .root.Values.networkPolicies }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $all | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "starling.space.selector" $all | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
  - ports:
    - {port: https}
    {{- if eq .space.type "hosted" }}
    from:
    - podSelector:
        matchLabels: {{- include "starling.space.selector" (dict "space" .space "component" "apiserver") | nindent 10 }}
    {{- end }}
{{- end }}
{{ include "starling.controller" $all }}
{{- end }}

{{- /* controller is the Deployment of a controller. */}}
{{- define "starling.controller" }}
{{- $name := printf "%s-%s" .space.name .component }}
{{- $values := .root.Values }}
{{- $place := dict "image" $values.image "nodeSelector" $values.nodeSelector "tolerations" $values.tolerations
  "affinity" $values.affinity "priorityClassName" $values.priorityClassName
  "podLabels" (merge (dict "starling.io/metrics" "true") $values.podLabels) "podAnnotations" $values.podAnnotations "name" .space.name }}
{{- $pod := dict "root" .root "space" $place "component" .component "spread" true }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" . | nindent 4 }}
spec:
  replicas: {{ .values.replicas }}
  selector:
    matchLabels: {{- include "starling.space.selector" . | nindent 6 }}
  template:
    metadata: {{- include "starling.space.pod-metadata" $pod | nindent 6 }}
    spec:
      {{- include "starling.space.pod" $pod | nindent 6 }}
      # To ask the hosting cluster who may read metrics.
      serviceAccountName: {{ .root.Release.Name }}-controllers
      automountServiceAccountToken: true
      containers:
      - name: {{ .component }}
        image: {{ include "starling.image" (dict "root" .root "image" $values.image "program" .program) }}
        imagePullPolicy: {{ $values.image.pullPolicy }}
        {{- include "starling.restricted" . | nindent 8 }}
        args:
        {{- range .args }}
        - {{ . }}
        {{- end }}
        - --health-address=0.0.0.0:8080
        - --secure-metrics-address=0.0.0.0:9443
        {{- $level := include "starling.verbosity" . }}
        {{- if ne $level "0" }}
        - --v={{ $level }}
        {{- end }}
        {{- range .values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        ports:
        - {name: health, containerPort: 8080}
        - {name: metrics, containerPort: 9443}
        {{- with .port }}
        - {name: https, containerPort: {{ . }}}
        {{- end }}
        readinessProbe:
          httpGet: {path: /readyz, port: health}
          periodSeconds: 3
          timeoutSeconds: 5
        livenessProbe:
          httpGet: {path: /healthz, port: health}
          periodSeconds: 10
          timeoutSeconds: 5
          failureThreshold: 6
        resources: {{- toYaml .values.resources | nindent 10 }}
        volumeMounts:
        {{- range .mounts }}
        - {name: {{ .name }}, mountPath: {{ .path }}, readOnly: true}
        {{- end }}
        - {name: tmp, mountPath: /tmp}
      volumes:
      {{- range .mounts }}
      - name: {{ .name }}
        secret: {secretName: {{ .secret }}}
      {{- end }}
      - name: tmp
        emptyDir: {}
{{- if gt (int .values.replicas) 1 }}
{{ include "starling.space.disruption" (merge (dict "objectName" $name) .) }}
{{- end }}
{{- end }}
