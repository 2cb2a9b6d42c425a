{{- define "router.image" -}}
{{- if .image.digest }}{{ .image.repository }}@{{ .image.digest }}{{ else }}{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "router.meta" -}}
name: {{ .name }}
labels:
  app.kubernetes.io/name: {{ .name }}
  app.kubernetes.io/instance: {{ .root.Release.Name }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* Who a role is for NATS. */}}
{{- define "router.natsEnv" -}}
- {name: ROUTER_CONFIG_FILE, value: /etc/router/router.toml}
- {name: ROUTER_NATS__URL, value: {{ .root.Values.nats.url | quote }}}
{{- if eq .root.Values.nats.login "nkey" }}
- {name: ROUTER_NATS__NKEY_FILE, value: /run/router/nkey}
{{- else if eq .root.Values.nats.login "creds" }}
- {name: ROUTER_NATS__CREDS_FILE, value: /run/router/creds}
{{- end }}
- {name: ROUTER_NATS__INBOX_PREFIX, value: {{ .role.inboxPrefix | quote }}}
{{- if .root.Values.nats.tls.enabled }}
- {name: ROUTER_NATS__TLS_CA, value: /run/router/ca.pem}
{{- if .root.Values.nats.tls.clientCertificate }}
- {name: ROUTER_NATS__TLS_CERT, value: /run/router/client.pem}
- {name: ROUTER_NATS__TLS_KEY, value: /run/router/client.key}
{{- end }}
{{- end }}
{{- end }}

{{- define "router.hasSecret" -}}
{{- if or (ne .Values.nats.login "none") .Values.nats.tls.enabled }}yes{{ end }}
{{- end }}

{{/* A pod of one container. Of it: root, name, role (its values), args, env, port, clientPort, probes (http, tcp or none), volumes, mounts, image. */}}
{{- define "router.podSpec" -}}
# For a Service called router, Kubernetes would set ROUTER_PORT, ROUTER_SERVICE_HOST … in every container: names that look like
# settings, and an unknown setting stops the start.
enableServiceLinks: false
automountServiceAccountToken: false
terminationGracePeriodSeconds: 30  # above drain.hard_deadline_ms
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- if not .restartPolicy }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {app.kubernetes.io/name: {{ .name }}}
{{- end }}
{{- with .restartPolicy }}
restartPolicy: {{ . }}
{{- end }}
containers:
  - name: {{ .container | default "router" }}
    image: {{ include "router.image" (dict "root" .root "image" (.image | default .root.Values.image)) }}
    {{- $policy := (.image | default .root.Values.image).pullPolicy }}
    {{- if ne $policy "IfNotPresent" }}
    imagePullPolicy: {{ $policy }}
    {{- end }}
    args: {{ toJson .args }}
    env:
      {{- include "router.natsEnv" . | nindent 6 }}
      {{- with .env }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- with .role.env }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with .envFrom }}
    envFrom: {{ toYaml . | nindent 6 }}
    {{- end }}
    {{- with .port }}
    ports:
      - {name: http, containerPort: {{ . }}}
    {{- end }}
    {{- with .clientPort }}
      - {name: clients, containerPort: {{ . }}}
    {{- end }}
    {{- if eq .probes "http" }}
    startupProbe:
      httpGet: {path: /healthz, port: http}
      periodSeconds: 2
      failureThreshold: 30
    livenessProbe:  # the process answers, and its connection is not stuck; a broker that is away is no reason to kill it
      httpGet: {path: /healthz, port: http}
      periodSeconds: 10
      timeoutSeconds: 3
      failureThreshold: 3
    readinessProbe:
      httpGet: {path: /readyz, port: http}
      periodSeconds: 5
      timeoutSeconds: 3
    {{- else if eq .probes "tcp" }}
    startupProbe: {tcpSocket: {port: http}, periodSeconds: 2, failureThreshold: 30}
    livenessProbe: {tcpSocket: {port: http}, periodSeconds: 10, timeoutSeconds: 3, failureThreshold: 3}
    readinessProbe: {tcpSocket: {port: http}, periodSeconds: 5, timeoutSeconds: 3}
    {{- end }}
    resources: {{ toYaml .role.resources | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
      - {name: config, mountPath: /etc/router, readOnly: true}
      {{- if include "router.hasSecret" .root }}
      - {name: nats, mountPath: /run/router, readOnly: true}
      {{- end }}
      {{- with .mounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - name: config
    configMap: {name: {{ .root.Release.Name }}}
  {{- if include "router.hasSecret" .root }}
  - name: nats
    secret: {secretName: {{ .role.secretName }}, defaultMode: 0440}
  {{- end }}
  {{- with .volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* A Deployment that any pod may leave: what it held is delivered to the others. */}}
{{- define "router.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata: {{ include "router.meta" . | nindent 2 }}
spec:
  {{- if not (and .scaled (ne .root.Values.autoscaling.kind "none")) }}
  replicas: {{ .replicas }}
  {{- end }}
  selector:
    matchLabels: {app.kubernetes.io/name: {{ .name }}}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  template:
    metadata:
      labels: {app.kubernetes.io/name: {{ .name }}, beamline/nats-client: "true"{{ range $key, $value := .labels }}, {{ $key }}: {{ $value | quote }}{{ end }}}
      {{- if .root.Values.config }}
      annotations: {checksum/config: {{ .root.Values.config | sha256sum }}}
      {{- end }}
    spec: {{ include "router.podSpec" . | nindent 6 }}
{{- end }}

{{- define "router.service" -}}
apiVersion: v1
kind: Service
metadata: {{ include "router.meta" . | nindent 2 }}
spec:
  selector: {app.kubernetes.io/name: {{ .name }}}
  ports:
    - {name: http, port: {{ .port }}, targetPort: http}
    {{- with .clientPort }}
    - {name: clients, port: {{ . }}, targetPort: clients}
    {{- end }}
{{- end }}

{{- define "router.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{ include "router.meta" . | nindent 2 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {app.kubernetes.io/name: {{ .name }}}
{{- end }}

{{/* A pod may ask NATS and DNS, and what `also` names; Prometheus may read its port, or the pods of `from` in its place, and those of `fromAlso` besides. The pods of `clientFrom` may reach its clientPort. */}}
{{- define "router.networkPolicy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{ include "router.meta" . | nindent 2 }}
spec:
  podSelector:
    matchLabels: {app.kubernetes.io/name: {{ .name }}}
  policyTypes: [Ingress, Egress]
  {{- if .port }}
  ingress:
    - from:
        {{- if .from }}
        {{- toYaml .from | nindent 8 }}
        {{- else }}
        - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ .root.Values.networkPolicy.prometheus.namespace }}}}
          podSelector: {matchLabels: {{ toJson .root.Values.networkPolicy.prometheus.pods }}}
        {{- end }}
        {{- with .fromAlso }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {protocol: TCP, port: {{ .port }}}
    {{- if .clientPort }}
    - from: {{ toYaml .clientFrom | nindent 8 }}
      ports:
        - {protocol: TCP, port: {{ .clientPort }}}
    {{- end }}
  {{- end }}
  egress:
    - to:
        {{- with .root.Values.nats.pods }}
        - podSelector: {matchLabels: {{ toJson . }}}
        {{- end }}
        {{- range .root.Values.nats.cidrs }}
        - ipBlock: {cidr: {{ . }}}
        {{- end }}
      ports:
        - {protocol: TCP, port: {{ .root.Values.nats.port }}}
    - to:
        - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}
          podSelector: {matchLabels: {k8s-app: kube-dns}}
      ports:
        - {protocol: UDP, port: 53}
        - {protocol: TCP, port: 53}
    {{- with .also }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "router.nodeId" -}}
- name: ROUTER_NODE_ID
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end }}

{{/* What driver and executors of a SparkApplication share. */}}
{{- define "router.sparkPod" }}
labels: {app.kubernetes.io/name: {{ .name }}, beamline/nats-client: "true"}
env: {{ include "router.natsEnv" . | nindent 2 }}
{{- with .envFrom }}
envFrom: {{ toYaml . | nindent 2 }}
{{- end }}
configMaps: [{name: {{ .root.Release.Name }}, path: /etc/router}]
{{- if include "router.hasSecret" .root }}
secrets: [{name: {{ .role.secretName }}, path: /run/router, secretType: Generic}]
{{- end }}
{{- end }}
