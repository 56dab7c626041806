{{- /* Open Cluster Management's hub: its two controllers, and its webhooks, which the API server of the ITS calls. */}}
{{- define "starling.space.ocm" }}
{{- $name := printf "%s-ocm" .space.name }}
{{- $args := merge (dict "component" "ocm") . }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  selector: {{- include "starling.space.selector" $args | nindent 4 }}
  ports:
  - {name: webhooks, port: 443, targetPort: webhooks}
---
# Without such a file, OCM creates a new key at each start.
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
data:
  {{- range $program, $port := dict "registration" 8443 "addon-manager" 8444 }}
  {{ $program }}.yaml: |
    apiVersion: operator.openshift.io/v1alpha1
    kind: GenericOperatorConfig
    servingInfo:
      bindAddress: 0.0.0.0:{{ $port }}
      certFile: /certificates/server.crt
      keyFile: /certificates/server.key
  {{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  replicas: 1
  selector:
    matchLabels: {{- include "starling.space.selector" $args | nindent 6 }}
  template:
    metadata: {{- include "starling.space.pod-metadata" $args | nindent 6 }}
    spec:
      {{- include "starling.space.pod" $args | nindent 6 }}
      automountServiceAccountToken: false
      containers:
      {{- range $program, $port := dict "registration" 8443 "addon-manager" 8444 }}
      - name: {{ $program }}
        {{- include "starling.space.container" $args | nindent 8 }}
        # OCM takes the files that a kubeconfig names relative to this directory.
        workingDir: /credentials/{{ $program }}
        args:
        - ocm-{{ $program }}
        - --space={{ $.space.name }}
        - --
        - --config=/config/{{ $program }}.yaml
        - --kubeconfig=/credentials/{{ $program }}/kubeconfig
        - --namespace=open-cluster-management-hub
        - --listen=0.0.0.0:{{ $port }}
        - --kube-api-qps=200
        - --kube-api-burst=400
        ports:
        - {name: {{ $program }}, containerPort: {{ $port }}}
        livenessProbe:
          httpGet: {path: /healthz, port: {{ $port }}, scheme: HTTPS}
          initialDelaySeconds: 30
          periodSeconds: 10
          failureThreshold: 8
        resources: {{- toYaml $.space.ocm.resources | nindent 10 }}
        volumeMounts:
        - {name: config, mountPath: /config, readOnly: true}
        - {name: certificates, mountPath: /certificates, readOnly: true}
        - {name: {{ $program }}, mountPath: /credentials/{{ $program }}, readOnly: true}
        - {name: tmp, mountPath: /tmp}
      {{- end }}
      - name: webhooks
        {{- include "starling.space.container" $args | nindent 8 }}
        args:
        - ocm-webhook
        - --space={{ .space.name }}
        - --
        - --kubeconfig=/credentials/webhooks/kubeconfig
        - --listen=0.0.0.0:9443
        - --cert=/certificates/server.crt
        - --key=/certificates/server.key
        ports:
        - {name: webhooks, containerPort: 9443}
        readinessProbe:
          tcpSocket: {port: webhooks}
          periodSeconds: 3
        livenessProbe:
          tcpSocket: {port: webhooks}
          initialDelaySeconds: 30
          periodSeconds: 10
        resources: {{- toYaml .space.ocm.resources | nindent 10 }}
        volumeMounts:
        - {name: certificates, mountPath: /certificates, readOnly: true}
        - {name: webhooks, mountPath: /credentials/webhooks, readOnly: true}
        - {name: tmp, mountPath: /tmp}
      volumes:
      - name: config
        configMap: {name: {{ $name }}}
      - name: certificates
        secret: {secretName: {{ $name }}}
      {{- range list "registration" "addon-manager" "webhooks" }}
      - name: {{ . }}
        secret: {secretName: {{ $name }}-{{ . }}}
      {{- end }}
      - name: tmp
        emptyDir: {}
{{- end }}
