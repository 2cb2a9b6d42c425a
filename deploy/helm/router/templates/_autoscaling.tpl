{{/* Both scale by what waits for the router's consumer, as the router itself reads it from the server. All instances say the same: the
largest is taken, never the sum. */}}
{{- define "router.pendingQuery" -}}
{{- $service := .name -}}
max(router_delivery_pending{consumer="{{ .root.Values.autoscaling.consumer }}", service="{{ $service }}"})
{{- end }}

{{- define "router.hpa" -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{ include "router.meta" . | nindent 2 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ .name }}}
  minReplicas: {{ .root.Values.autoscaling.minReplicas }}
  maxReplicas: {{ .root.Values.autoscaling.maxReplicas }}
  metrics:
    - type: Object
      object:
        describedObject: {apiVersion: v1, kind: Service, name: {{ .name }}}
        metric:
          name: router_delivery_pending
          selector:
            matchLabels: {consumer: {{ .root.Values.autoscaling.consumer }}}
        target: {type: AverageValue, averageValue: {{ .root.Values.autoscaling.pending | toString | quote }}}
  behavior:
    scaleDown: {stabilizationWindowSeconds: 300}
{{- end }}

{{- define "router.scaledObject" -}}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {{ include "router.meta" . | nindent 2 }}
spec:
  scaleTargetRef: {name: {{ .name }}}
  minReplicaCount: {{ .root.Values.autoscaling.minReplicas }}
  maxReplicaCount: {{ .root.Values.autoscaling.maxReplicas }}
  cooldownPeriod: 300
  triggers:
    - type: prometheus
      metricType: AverageValue
      metadata:
        serverAddress: {{ .root.Values.autoscaling.prometheus | quote }}
        query: {{ include "router.pendingQuery" . | squote }}
        threshold: {{ .root.Values.autoscaling.pending | toString | quote }}
{{- end }}
