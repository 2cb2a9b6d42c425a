// Made by scripts/generate.mjs of the router's schemas; a test keeps it equal to them.

/**
 * Whether a worker takes an assignment. Fields that are not known are ignored. docs/reference/contracts.md#acks
 */
export type ExecAssignmentAck = ExecAssignmentAckBare | ExecAssignmentAckEnveloped;

export interface ExecAssignmentAckBare {
  /**
   * the version of the contract: "1"
   */
  version?: "1" | "1.0" | "v1";
  /**
   * 1..128 of A-Z a-z 0-9 _ . : - and not start with . or _; null and an empty string are absent
   */
  tenant_id?: string | null;
  /**
   * 1..128 printable ASCII characters without spaces; null and an empty string are absent
   */
  trace_id?: string | null;
  /**
   * 1..128 printable ASCII characters without spaces; null and an empty string are absent
   */
  msg_id?: string | null;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  assignment_id: string;
  status: "accepted" | "error" | "rejected";
  /**
   * 1..128 printable ASCII characters without spaces; null and an empty string are absent
   */
  request_id?: string | null;
  /**
   * milliseconds since the epoch; the time of its storing if absent
   */
  acknowledged_at?: number | null;
  /**
   * words for operators
   */
  message?: string | null;
  kind?: unknown;
}
export interface ExecAssignmentAckEnveloped {
  kind: "exec_assignment_ack";
  /**
   * the version of the contract: "1"
   */
  version?: "1" | "1.0" | "v1";
  /**
   * tenant id; it goes before the same field in `data`
   */
  tenant_id?: string;
  /**
   * trace id; it goes before the same field in `data`
   */
  trace_id?: string;
  /**
   * msg id; it goes before the same field in `data`
   */
  msg_id?: string;
  data: {
    /**
     * the version of the contract: "1"
     */
    version?: "1" | "1.0" | "v1";
    /**
     * tenant id; it goes before the same field in `data`
     */
    tenant_id?: string;
    /**
     * trace id; it goes before the same field in `data`
     */
    trace_id?: string;
    /**
     * msg id; it goes before the same field in `data`
     */
    msg_id?: string;
    /**
     * 1..128 printable ASCII characters without spaces
     */
    assignment_id: string;
    status: "accepted" | "error" | "rejected";
    /**
     * 1..128 printable ASCII characters without spaces; null and an empty string are absent
     */
    request_id?: string | null;
    /**
     * milliseconds since the epoch; the time of its storing if absent
     */
    acknowledged_at?: number | null;
    /**
     * words for operators
     */
    message?: string | null;
  };
}

/**
 * What operators are told, published once and not stored. Fields that are not known are ignored. docs/reference/contracts.md#alerts
 */
export interface Alert {
  alert_id: string;
  severity: "critical" | "warning" | "info";
  component: string;
  message: string;
  /**
   * ISO 8601 in UTC, like 2024-01-15T14:30:00Z
   */
  timestamp: string;
  /**
   * ids and figures
   */
  metadata: {
    [k: string]: unknown;
  };
}

/**
 * The decision, or why there is none. With `Accept: application/x-protobuf` a decision alone is sent as protobuf. Fields that are not known are ignored. docs/reference/contracts.md#answers
 */
export type RouteAnswer = RouteAnswerDecided | RouteAnswerRefused;

export interface RouteAnswerDecided {
  ok: true;
  decision: {
    provider_id: string;
    /**
     * why this provider: weighted, least_latency, cheapest, objectives_missed, explore, probe, sticky, retry, fallback, circuit_breaker_fallback
     */
    reason: string;
    priority: number;
    /**
     * milliseconds
     */
    expected_latency_ms: number;
    expected_cost: number;
    /**
     * text by name: policy_id, policy_version, where extensions ran executed_extensions (JSON as text), of a canary its arm, of a candidate that has them model and parameters (JSON as text)
     */
    metadata: {
      policy_id?: string;
      policy_version?: string;
      executed_extensions?: string;
      canary?: string;
      model?: string;
      parameters?: string;
      [k: string]: string | undefined;
    };
  };
  context: {
    /**
     * 1..128 printable ASCII characters without spaces
     */
    request_id: string;
    /**
     * 1..128 printable ASCII characters without spaces
     */
    trace_id?: string;
  };
  /**
   * what was asked for and not done, or not understood
   */
  warnings?: {
    code: string;
    message: string;
    details: {
      [k: string]: unknown;
    };
  }[];
  /**
   * what the pre-processors left of it, where `return_message` asks and one of them ran
   */
  message?: {
    /**
     * text of 1..256 characters, but usage.adjustment, provider.invoke and provider.invoke.stream
     */
    message_type: string;
    /**
     * any JSON value, also null
     */
    payload: unknown;
    /**
     * the payload is bytes in base64
     */
    payload_encoding?: "base64";
    payload_ref?: string;
    metadata: {
      [k: string]: unknown;
    };
  };
}
export interface RouteAnswerRefused {
  ok: false;
  error: {
    /**
     * one of assignment_skipped, budget_exceeded, cannot_be_stored, deadline_exceeded, decision_failed, expired, extension_error, extension_not_found, extension_timeout, extension_unavailable, internal, invalid_request, message_id_taken, overloaded, policy_not_found, post_processor_failed, pre_processor_failed, rate_limit_exceeded, rejected, unauthorized, unknown_field, validator_blocked; `router explain CODE` explains it
     */
    code: string;
    message: string;
    /**
     * `field`, `cause`, `retry_after_ms`, `did_you_mean`, where they are known
     */
    details?: {
      [k: string]: unknown;
    };
  };
  context: {
    /**
     * 1..128 printable ASCII characters without spaces
     */
    request_id: string;
    /**
     * 1..128 printable ASCII characters without spaces
     */
    trace_id?: string;
  };
}

/**
 * Work for a worker. It comes again until a result of it is stored, so a worker may see it twice. Fields that are not known are ignored. docs/reference/contracts.md#assignments
 */
export interface ExecAssignment {
  version: "1";
  /**
   * name it in acknowledgements and results
   */
  assignment_id: string;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  request_id: string;
  /**
   * 1..128 of A-Z a-z 0-9 _ . : - and not start with . or _
   */
  tenant_id: string;
  executor: {
    provider_id: string;
    channel: "nats";
  };
  job: {
    /**
     * text of 1..256 characters, but usage.adjustment, provider.invoke and provider.invoke.stream
     */
    type: string;
    /**
     * any JSON value, also null
     */
    payload: unknown;
    /**
     * the payload is bytes in base64
     */
    payload_encoding?: "base64";
    /**
     * where the payload is, where it is not here
     */
    payload_ref?: string;
  };
  options: {
    priority: number;
    /**
     * for all attempts together, from the begin of the first one, milliseconds
     */
    deadline_ms: number;
    retry: {
      max_attempts: number;
      backoff_ms: number;
    };
  };
  correlation: {
    /**
     * 1..128 printable ASCII characters without spaces
     */
    trace_id?: string;
  };
  decision: {
    provider_id: string;
    /**
     * why this provider: weighted, least_latency, cheapest, objectives_missed, explore, probe, sticky, retry, fallback, circuit_breaker_fallback
     */
    reason: string;
    priority: number;
    /**
     * milliseconds
     */
    expected_latency_ms: number;
    expected_cost: number;
    /**
     * text by name: policy_id, policy_version, where extensions ran executed_extensions (JSON as text), of a canary its arm, of a candidate that has them model and parameters (JSON as text)
     */
    metadata: {
      policy_id?: string;
      policy_version?: string;
      executed_extensions?: string;
      canary?: string;
      model?: string;
      parameters?: string;
      [k: string]: string | undefined;
    };
  };
  /**
   * of the request
   */
  metadata: {
    [k: string]: unknown;
  };
  /**
   * 1..128 printable ASCII characters without spaces
   */
  trace_id?: string;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  run_id?: string;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  flow_id?: string;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  step_id?: string;
}

/**
 * One write of an operator: who did what to which object, with a few values before and after; never a payload. Fields that are not known are ignored. docs/reference/contracts.md#audit
 */
export interface AuditEvent {
  version: "1";
  /**
   * the event's own id, its Nats-Msg-Id too
   */
  id: string;
  /**
   * milliseconds since the epoch
   */
  timestamp: number;
  /**
   * user@host of a command, the console's user, or the author that a request to a router names
   */
  by: string;
  via: "cli" | "console" | "admin";
  /**
   * the process that wrote
   */
  router_node_id: string;
  /**
   * the words of the command that writes the same
   */
  command: string;
  /**
   * what it was done to
   */
  target: string;
  outcome: "begun" | "done" | "failed";
  /**
   * the login on the broker of the process that wrote, where it has a name
   */
  nats_user?: string;
  /**
   * whose data it was, if one tenant's
   */
  tenant_id?: string;
  /**
   * a few values, masked; where they are too large their bytes and sha256
   */
  before?: {
    [k: string]: unknown;
  };
  /**
   * a few values, masked; where they are too large their bytes and sha256
   */
  after?: {
    [k: string]: unknown;
  };
  /**
   * what the operator said
   */
  note?: string;
  /**
   * the code of the error that ended it early
   */
  error?: string;
}

/**
 * One piece of a stream, from a provider to the router and from the router to its client. The last one is `done`; its metadata says how the stream ended: status, error_code, error_message, chunks. Fields that are not known are ignored. docs/reference/extensions.md#stream
 */
export interface StreamChunk {
  done: boolean;
  request_id?: string;
  data?: string;
  payload_encoding?: string | null;
  metadata?: {
    [k: string]: unknown;
  };
}

/**
 * A message that failed for good, and why. Its Nats-Msg-Id is derived from where the message stands. Fields that are not known are ignored. docs/reference/contracts.md#dead-letters
 */
export interface DeadLetter {
  original_subject: string;
  msg_id: string;
  reason: "validation_failed" | "maxdeliver_exhausted" | "processing_error";
  error_code: "VALIDATION_FAILED" | "MAXDELIVER_EXHAUSTED" | "PROCESSING_ERROR";
  /**
   * when the message was stored, milliseconds since the epoch
   */
  received_at: number;
  /**
   * sha256
   */
  original_payload_hash: string;
  context: {
    msg_id: string;
    /**
     * 1..128 of A-Z a-z 0-9 _ . : - and not start with . or _
     */
    tenant_id?: string;
    /**
     * 1..128 printable ASCII characters without spaces
     */
    run_id?: string;
    /**
     * 1..128 printable ASCII characters without spaces
     */
    trace_id?: string;
    validation_stage?: "size" | "decode" | "headers" | "version" | "schema" | "correlation" | "tenant";
  };
  source: {
    stream: string;
    consumer: string;
    sequence: number;
    deliveries: number;
    attempts: number;
    /**
     * whether the first attempt was begun is not known
     */
    attempts_unconfirmed?: 1;
  };
  /**
   * when the dead letter was made, milliseconds since the epoch
   */
  timestamp: number;
  router_node_id: string;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  trace_id?: string;
  /**
   * 1..128 of A-Z a-z 0-9 _ . : - and not start with . or _
   */
  tenant_id?: string;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  request_id?: string;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  assignment_id?: string;
  validation_error?: {
    code:
      | "CORRELATION_FIELDS_INVALID"
      | "HEADER_CONTRACT_VIOLATION"
      | "PAYLOAD_TOO_LARGE"
      | "SCHEMA_VALIDATION_FAILED"
      | "TENANT_FORBIDDEN"
      | "VERSION_UNSUPPORTED";
    message: string;
    severity: "error";
    /**
     * its place in the message
     */
    field?: string;
  };
  last_error?: {
    code: string;
    message: string;
  };
  message?: {
    id: string;
    subject: string;
    /**
     * text by name; of a header that stood several times a list of its texts, in order
     */
    headers: {
      [k: string]: string | string[];
    };
    payload?: string;
    /**
     * the payload is not UTF-8
     */
    payload_encoding?: "base64";
  };
  /**
   * the payload was too large for a dead letter
   */
  payload_truncated?: true;
  original_payload_bytes?: number;
  /**
   * of a dead letter of the inbox, and so is attempts
   */
  message_id?: string;
  attempts?: number;
}

/**
 * A request for a routing decision, in one of four forms: everything in `message` with `policy_id` and `context` beside it; a `task` with the ids beside it; a `message` with the ids beside it; or flat. Each form needs a tenant, a type, and a payload or payload_ref. Fields that are not known are ignored. docs/reference/contracts.md#decide-requests
 */
export interface RouteRequest {
  /**
   * the version of the contract: "1"
   */
  version?: "1" | "1.0" | "v1";
  /**
   * whose request it is
   */
  tenant_id?: string | null;
  /**
   * the request's id; the answer's context has it
   */
  request_id?: string | null;
  /**
   * 1..128 printable ASCII characters without spaces; null and an empty string are absent
   */
  message_id?: string | null;
  /**
   * 1..128 printable ASCII characters without spaces; null and an empty string are absent
   */
  trace_id?: string | null;
  /**
   * the policy that decides; `default` where none is named
   */
  policy_id?: string | null;
  /**
   * requests with the same key are one request
   */
  idempotency_key?: string | null;
  message?: {
    /**
     * tenant id; the same field beside `message` goes before it
     */
    tenant_id?: string;
    /**
     * message id; the same field beside `message` goes before it
     */
    message_id?: string;
    /**
     * trace id; the same field beside `message` goes before it
     */
    trace_id?: string;
    /**
     * request id; the same field beside `message` goes before it
     */
    request_id?: string;
    /**
     * version; the same field beside `message` goes before it
     */
    version?: "1" | "1.0" | "v1";
    /**
     * idempotency key; the same field beside `message` goes before it
     */
    idempotency_key?: string;
    /**
     * timestamp ms; the same field beside `message` goes before it
     */
    timestamp_ms?: number;
    /**
     * run id; the same field beside `message` goes before it
     */
    run_id?: string;
    /**
     * flow id; the same field beside `message` goes before it
     */
    flow_id?: string;
    /**
     * step id; the same field beside `message` goes before it
     */
    step_id?: string;
    /**
     * an object; null is absent
     */
    metadata?: {
      [k: string]: unknown;
    } | null;
    /**
     * the type of the message, 1..256 characters
     */
    message_type?: string;
    /**
     * as message_type, which goes before it
     */
    type?: string;
    /**
     * any JSON value
     */
    payload?: unknown;
    /**
     * "base64" where the payload is bytes in base64
     */
    payload_encoding?: "base64";
    /**
     * where the payload is, 1..4096 characters, where it is not here
     */
    payload_ref?: string;
  } | null;
  task?: {
    /**
     * the type of the message, 1..256 characters
     */
    type?: string;
    /**
     * any JSON value
     */
    payload?: unknown;
    /**
     * "base64" where the payload is bytes in base64
     */
    payload_encoding?: "base64";
    /**
     * where the payload is, 1..4096 characters, where it is not here
     */
    payload_ref?: string;
  } | null;
  /**
   * the type of the message, 1..256 characters
   */
  message_type?: string;
  /**
   * as message_type, which goes before it
   */
  type?: string;
  /**
   * any JSON value
   */
  payload?: unknown;
  /**
   * "base64" where the payload is bytes in base64
   */
  payload_encoding?: "base64";
  /**
   * where the payload is, 1..4096 characters, where it is not here
   */
  payload_ref?: string;
  /**
   * whom the decision may choose; null is absent
   */
  constraints?: {
    /**
     * no provider that is known to be slower, milliseconds
     */
    max_latency_ms?: unknown;
    /**
     * no provider that is known to cost more
     */
    max_cost?: unknown;
    /**
     * none but these, 1..64 names; null is absent
     */
    providers?: string[] | null;
    /**
     * none of these, 1..64 names; null is absent
     */
    excluded_providers?: string[] | null;
    [k: string]: unknown;
  } | null;
  /**
   * an object; null is absent
   */
  metadata?: {
    [k: string]: unknown;
  } | null;
  /**
   * what a policy's conditions read
   */
  context?: {
    [k: string]: unknown;
  } | null;
  /**
   * milliseconds since the epoch
   */
  timestamp_ms?: number | null;
  /**
   * true: an assignment is published for a worker as well
   */
  push_assignment?: null | true | "true" | false | "false" | 1 | 0;
  /**
   * true: the answer holds what the pre-processors left of the message; not beside push_assignment
   */
  return_message?: boolean | null;
  /**
   * where the assignment goes; the first one unless it says so
   */
  assignment_subject?: null | "caf.exec.assign.v1";
  /**
   * of a workflow; all three or none
   */
  run_id?: string | null;
  /**
   * of a workflow; all three or none
   */
  flow_id?: string | null;
  /**
   * of a workflow; all three or none
   */
  step_id?: string | null;
}

/**
 * A domain event, a command or a query on the bus. Fields that are not known are ignored. docs/reference/requirements.md#sr-envelope
 */
export interface MessageEnvelope {
  /**
   * a supported version of this schema
   */
  schema_version: "1.0";
  /**
   * 1..128 printable ASCII characters without spaces
   */
  message_type: string;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  message_id: string;
  /**
   * text of at most 256 characters, or null
   */
  correlation_id?: string | null;
  /**
   * text of at most 256 characters, or null
   */
  causation_id?: string | null;
  /**
   * an ISO 8601 date and time in UTC, like 2024-01-15T14:30:00Z
   */
  timestamp: string;
  /**
   * text of 1..256 characters
   */
  actor_id: string;
  /**
   * HUMAN, AGENT or SYSTEM
   */
  actor_kind: "AGENT" | "HUMAN" | "SYSTEM";
  /**
   * a JSON object
   */
  payload: {
    /**
     * any JSON value
     */
    [k: string]: unknown;
  };
  /**
   * 1..256 printable ASCII characters without spaces
   */
  idempotency_key: string;
}

/**
 * What a pre-processor or a post-processor answers: the message as it is to go on, and metadata to add. Fields that are not known are ignored. docs/reference/extensions.md#calls
 */
export interface ExtensionMessage {
  payload: {
    payload: unknown;
    /**
     * text of 1..256 characters, but usage.adjustment, provider.invoke and provider.invoke.stream; null and an empty string are absent
     */
    message_type?: string | null;
    message_id?: string | null;
    payload_encoding?: string | null;
    payload_ref?: string | null;
    metadata?: {
      [k: string]: unknown;
    } | null;
  };
  metadata?: {
    [k: string]: unknown;
  } | null;
}

/**
 * What the router asks a pre-processor, a validator or a post-processor. Fields that are not known are ignored. docs/reference/extensions.md#calls
 */
export interface ExtensionRequest {
  /**
   * 1..128 printable ASCII characters without spaces
   */
  trace_id: string;
  /**
   * 1..128 of A-Z a-z 0-9 _ . : - and not start with . or _
   */
  tenant_id: string;
  /**
   * the message
   */
  payload: {
    /**
     * 1..128 printable ASCII characters without spaces
     */
    message_id: string;
    /**
     * text of 1..256 characters, but usage.adjustment, provider.invoke and provider.invoke.stream
     */
    message_type: string;
    /**
     * any JSON value, also null
     */
    payload: unknown;
    /**
     * the payload is bytes in base64
     */
    payload_encoding?: "base64";
    payload_ref?: string;
    metadata: {
      [k: string]: unknown;
    };
  };
  /**
   * the routing context and policy_id; for a post-processor the decision as well
   */
  metadata: {
    policy_id: string;
    decision?: {
      provider_id: string;
      /**
       * why this provider: weighted, least_latency, cheapest, objectives_missed, explore, probe, sticky, retry, fallback, circuit_breaker_fallback
       */
      reason: string;
      priority: number;
      /**
       * milliseconds
       */
      expected_latency_ms: number;
      expected_cost: number;
      /**
       * text by name: policy_id, policy_version, where extensions ran executed_extensions (JSON as text), of a canary its arm, of a candidate that has them model and parameters (JSON as text)
       */
      metadata: {
        policy_id?: string;
        policy_version?: string;
        executed_extensions?: string;
        canary?: string;
        model?: string;
        parameters?: string;
        [k: string]: string | undefined;
      };
    };
    [k: string]: unknown;
  };
  /**
   * of the registry's entry, and over it the policy's
   */
  config: {
    [k: string]: unknown;
  };
}

/**
 * What a validator answers: status is ok or reject, and valid false reads as reject. One of both is required. Fields that are not known are ignored. docs/reference/extensions.md#calls
 */
export interface ExtensionVerdict {
  status?: "ok" | "reject" | null;
  valid?: boolean | null;
  reason?: string | null;
  details?: unknown;
}

/**
 * A worker's sign of life. After three intervals without one the worker counts as silent. Fields that are not known are ignored. docs/reference/contracts.md#heartbeats
 */
export type Heartbeat = HeartbeatBare | HeartbeatEnveloped;

export interface HeartbeatBare {
  /**
   * the version of the contract: "1"
   */
  version?: unknown;
  /**
   * 1..128 of A-Z a-z 0-9 _ . : - and not start with . or _; null and an empty string are absent
   */
  tenant_id?: string | null;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  worker_id: string;
  status: "busy" | "draining" | "idle" | "stopped";
  /**
   * the worker's clock: milliseconds since the epoch, or ISO 8601 in UTC
   */
  timestamp?: number | string | null;
  load?: number | null;
  /**
   * assignments at once
   */
  capacity?: number | null;
  /**
   * the next heartbeat comes within this, milliseconds, 1..3600000
   */
  interval_ms?: number | null;
}
export interface HeartbeatEnveloped {
  kind: string;
  /**
   * the version of the contract: "1"
   */
  version?: unknown;
  /**
   * tenant id; it goes before the same field in `data`
   */
  tenant_id?: string;
  data: {
    /**
     * the version of the contract: "1"
     */
    version?: unknown;
    /**
     * tenant id; it goes before the same field in `data`
     */
    tenant_id?: string;
    /**
     * 1..128 printable ASCII characters without spaces
     */
    worker_id: string;
    status: "busy" | "draining" | "idle" | "stopped";
    /**
     * the worker's clock: milliseconds since the epoch, or ISO 8601 in UTC
     */
    timestamp?: number | string | null;
    load?: number | null;
    /**
     * assignments at once
     */
    capacity?: number | null;
    /**
     * the next heartbeat comes within this, milliseconds, 1..3600000
     */
    interval_ms?: number | null;
  };
}

/**
 * accepted: the message is stored in the decide stream; rejected: it will never be taken; error: send it again. Fields that are not known are ignored. docs/reference/contracts.md#ingress
 */
export interface IngressAck {
  status: "accepted" | "rejected" | "error";
  /**
   * milliseconds since the epoch
   */
  timestamp_ms: number;
  /**
   * empty: it could not be read
   */
  message_id: string;
  /**
   * empty: the message has none, or it could not be read
   */
  correlation_id: string;
  message?: string;
  error_code?: string;
  /**
   * text by name
   */
  metadata: {
    [k: string]: string;
  };
}

/**
 * A message that becomes a decide request. Its sender gets an IngressAck; the decision goes to the reply subject. Fields that are not known are ignored. docs/reference/contracts.md#ingress
 */
export type IngressMessage = IngressMessageBare | IngressMessageEnveloped;

export interface IngressMessageBare {
  /**
   * the version of the contract: "1"
   */
  version?: unknown;
  /**
   * 1..128 of A-Z a-z 0-9 _ . : - and not start with . or _
   */
  tenant_id: string;
  /**
   * 1..128 printable ASCII characters without spaces; null and an empty string are absent
   */
  trace_id?: string | null;
  /**
   * the message's id; the same message is decided once
   */
  message_id?: string;
  /**
   * the type of the message, 1..256 characters
   */
  message_type?: string;
  /**
   * as message_type, which goes before it
   */
  type?: string;
  /**
   * any JSON value but null
   */
  payload?: unknown;
  /**
   * "base64" where the payload is bytes in base64
   */
  payload_encoding?: "base64";
  /**
   * 1..128 printable ASCII characters without spaces; null and an empty string are absent
   */
  correlation_id?: string | null;
  /**
   * an object; null is absent
   */
  metadata?: {
    [k: string]: unknown;
  } | null;
  /**
   * milliseconds since the epoch, or ISO 8601 in UTC
   */
  timestamp_ms?: number | string | null;
  /**
   * as timestamp_ms, which goes before it
   */
  timestamp?: number | string | null;
  /**
   * 1..128 of A-Z a-z 0-9 _ . : - and not start with . or _; null and an empty string are absent
   */
  policy_id?: string | null;
  kind?: unknown;
}
export interface IngressMessageEnveloped {
  kind: "ingress_message";
  /**
   * the version of the contract: "1"
   */
  version?: unknown;
  /**
   * tenant id; it goes before the same field in `data`
   */
  tenant_id?: string;
  /**
   * trace id; it goes before the same field in `data`
   */
  trace_id?: string;
  data: {
    /**
     * the version of the contract: "1"
     */
    version?: unknown;
    /**
     * tenant id; it goes before the same field in `data`
     */
    tenant_id?: string;
    /**
     * trace id; it goes before the same field in `data`
     */
    trace_id?: string;
    /**
     * the message's id; the same message is decided once
     */
    message_id?: string;
    /**
     * the type of the message, 1..256 characters
     */
    message_type?: string;
    /**
     * as message_type, which goes before it
     */
    type?: string;
    /**
     * any JSON value but null
     */
    payload?: unknown;
    /**
     * "base64" where the payload is bytes in base64
     */
    payload_encoding?: "base64";
    /**
     * 1..128 printable ASCII characters without spaces; null and an empty string are absent
     */
    correlation_id?: string | null;
    /**
     * an object; null is absent
     */
    metadata?: {
      [k: string]: unknown;
    } | null;
    /**
     * milliseconds since the epoch, or ISO 8601 in UTC
     */
    timestamp_ms?: number | string | null;
    /**
     * as timestamp_ms, which goes before it
     */
    timestamp?: number | string | null;
    /**
     * 1..128 of A-Z a-z 0-9 _ . : - and not start with . or _; null and an empty string are absent
     */
    policy_id?: string | null;
  };
}

/**
 * What a provider of the registry answers. Only output is required. provider_id, where it is there, is the provider's own. Fields that are not known are ignored. docs/reference/extensions.md#provider-call
 */
export interface ProviderAnswer {
  output: unknown;
  provider_id?: string | null;
  /**
   * prompt_tokens, completion_tokens, cached_tokens: whole numbers; one that is not legal is as if it were absent
   */
  usage?: unknown;
  /**
   * which model answered; as metadata.model
   */
  model?: unknown;
  /**
   * in the currency of the policies, 0 or more; one that is not legal is as if it were absent
   */
  cost?: unknown;
  metadata?: {
    [k: string]: unknown;
  } | null;
}

/**
 * What the router asks a provider of the registry. The header `Router-Stream: true` asks for a stream. Fields that are not known are ignored. docs/reference/extensions.md#provider-call
 */
export interface ProviderCall {
  /**
   * 1..128 printable ASCII characters without spaces
   */
  trace_id: string;
  /**
   * 1..128 of A-Z a-z 0-9 _ . : - and not start with . or _
   */
  tenant_id: string;
  /**
   * 1..64 of A-Z a-z 0-9 _ -
   */
  provider_id: string;
  /**
   * what is asked
   */
  prompt: string;
  parameters: {
    [k: string]: unknown;
  };
  context: {
    [k: string]: unknown;
  };
  /**
   * the text beside it is bytes in base64
   */
  payload_encoding?: "base64";
  /**
   * of the registry's entry; absent where it has none
   */
  config?: {
    [k: string]: unknown;
  };
}

/**
 * A provider invoked through the router: once, or as a stream. Fields that are not known are ignored. docs/reference/extensions.md#invoke-request
 */
export type ProviderRequest = ProviderRequestBare | ProviderRequestEnveloped;

export interface ProviderRequestBare {
  /**
   * the version of the contract: "1"
   */
  version?: "1" | "1.0" | "v1";
  /**
   * 1..128 of A-Z a-z 0-9 _ . : - and not start with . or _
   */
  tenant_id: string;
  /**
   * 1..128 printable ASCII characters without spaces; null and an empty string are absent
   */
  trace_id?: string | null;
  /**
   * a provider of the registry
   */
  provider_id: string;
  /**
   * it is the response's request_id
   */
  message_id?: string | null;
  /**
   * what the provider is asked, text
   */
  body?: string;
  /**
   * as body, which goes before it
   */
  prompt?: string;
  /**
   * "base64" where the body is bytes in base64
   */
  payload_encoding?: "base64";
  /**
   * for the provider
   */
  parameters?: {
    [k: string]: unknown;
  } | null;
  /**
   * an object; null is absent
   */
  metadata?: {
    [k: string]: unknown;
  } | null;
  /**
   * goes before metadata
   */
  context?: {
    [k: string]: unknown;
  } | null;
  /**
   * when it was asked, milliseconds since the epoch; for other readers
   */
  timestamp_ms?: unknown;
  kind?: unknown;
}
export interface ProviderRequestEnveloped {
  kind: "provider_request";
  /**
   * the version of the contract: "1"
   */
  version?: "1" | "1.0" | "v1";
  /**
   * tenant id; it goes before the same field in `data`
   */
  tenant_id?: string;
  /**
   * trace id; it goes before the same field in `data`
   */
  trace_id?: string;
  data: {
    /**
     * the version of the contract: "1"
     */
    version?: "1" | "1.0" | "v1";
    /**
     * tenant id; it goes before the same field in `data`
     */
    tenant_id?: string;
    /**
     * trace id; it goes before the same field in `data`
     */
    trace_id?: string;
    /**
     * a provider of the registry
     */
    provider_id: string;
    /**
     * it is the response's request_id
     */
    message_id?: string | null;
    /**
     * what the provider is asked, text
     */
    body?: string;
    /**
     * as body, which goes before it
     */
    prompt?: string;
    /**
     * "base64" where the body is bytes in base64
     */
    payload_encoding?: "base64";
    /**
     * for the provider
     */
    parameters?: {
      [k: string]: unknown;
    } | null;
    /**
     * an object; null is absent
     */
    metadata?: {
      [k: string]: unknown;
    } | null;
    /**
     * goes before metadata
     */
    context?: {
      [k: string]: unknown;
    } | null;
    /**
     * when it was asked, milliseconds since the epoch; for other readers
     */
    timestamp_ms?: unknown;
  };
}

/**
 * What an invocation came to. An error stands inside it, never in its place. Fields that are not known are ignored. docs/reference/extensions.md#invoke-request
 */
export interface ProviderResponse {
  request_id: string;
  status: "success" | "error" | "timeout";
  body: string;
  /**
   * the text beside it is bytes in base64
   */
  payload_encoding?: "base64";
  /**
   * text by name
   */
  metadata: {
    [k: string]: string;
  };
  /**
   * as the router measured it
   */
  latency_ms: number;
  /**
   * as it was billed, of the last attempt; metadata.cost is that of all
   */
  cost: number;
  error_code?: string;
  error_message?: string;
  /**
   * milliseconds since the epoch
   */
  timestamp_ms: number;
}

/**
 * The outcome of an assignment, as a worker reports it. One of assignment_id and request_id is required. provider_id, job.type and tenant_id may be left out where the router knows the assignment. Fields that are not known are ignored. docs/reference/contracts.md#results
 */
export type ExecResult = ExecResultBare | ExecResultEnveloped;

export interface ExecResultBare {
  /**
   * the version of the contract: "1"
   */
  version?: "1" | "1.0" | "v1";
  /**
   * 1..128 of A-Z a-z 0-9 _ . : - and not start with . or _; null and an empty string are absent
   */
  tenant_id?: string | null;
  /**
   * 1..128 printable ASCII characters without spaces; null and an empty string are absent
   */
  trace_id?: string | null;
  /**
   * 1..128 printable ASCII characters without spaces; null and an empty string are absent
   */
  msg_id?: string | null;
  /**
   * 1..128 printable ASCII characters without spaces; null and an empty string are absent
   */
  assignment_id?: string | null;
  /**
   * 1..128 printable ASCII characters without spaces; null and an empty string are absent
   */
  request_id?: string | null;
  status: "cancelled" | "error" | "success" | "timeout";
  /**
   * who did the work
   */
  provider_id?: string | null;
  job?: {
    /**
     * the type of the job
     */
    type?: string | null;
  } | null;
  /**
   * as job.type, which goes first
   */
  job_type?: unknown;
  /**
   * how long the work took, milliseconds; it is rounded half up
   */
  latency_ms: number;
  /**
   * what the work cost
   */
  cost: number;
  /**
   * when the work ended, milliseconds since the epoch; the time of its storing if absent
   */
  timestamp?: number | null;
  /**
   * a number reads as its text
   */
  error_code?: string | number | null;
  /**
   * of a rate limit: milliseconds until the provider may be asked again
   */
  retry_after_ms?: number | null;
  error_message?: string | null;
  /**
   * of a workflow; for other readers
   */
  run_id?: unknown;
  /**
   * of a workflow; for other readers
   */
  flow_id?: unknown;
  /**
   * of a workflow; for other readers
   */
  step_id?: unknown;
  /**
   * the output, any JSON value; for other readers
   */
  payload?: unknown;
  /**
   * "base64" where the payload is bytes in base64
   */
  payload_encoding?: unknown;
  /**
   * for other readers
   */
  metadata?: unknown;
  kind?: unknown;
}
export interface ExecResultEnveloped {
  kind: "exec_result";
  /**
   * the version of the contract: "1"
   */
  version?: "1" | "1.0" | "v1";
  /**
   * tenant id; it goes before the same field in `data`
   */
  tenant_id?: string;
  /**
   * trace id; it goes before the same field in `data`
   */
  trace_id?: string;
  /**
   * msg id; it goes before the same field in `data`
   */
  msg_id?: string;
  data: {
    /**
     * the version of the contract: "1"
     */
    version?: "1" | "1.0" | "v1";
    /**
     * tenant id; it goes before the same field in `data`
     */
    tenant_id?: string;
    /**
     * trace id; it goes before the same field in `data`
     */
    trace_id?: string;
    /**
     * msg id; it goes before the same field in `data`
     */
    msg_id?: string;
    /**
     * 1..128 printable ASCII characters without spaces; null and an empty string are absent
     */
    assignment_id?: string | null;
    /**
     * 1..128 printable ASCII characters without spaces; null and an empty string are absent
     */
    request_id?: string | null;
    status: "cancelled" | "error" | "success" | "timeout";
    /**
     * who did the work
     */
    provider_id?: string | null;
    job?: {
      /**
       * the type of the job
       */
      type?: string | null;
    } | null;
    /**
     * as job.type, which goes first
     */
    job_type?: unknown;
    /**
     * how long the work took, milliseconds; it is rounded half up
     */
    latency_ms: number;
    /**
     * what the work cost
     */
    cost: number;
    /**
     * when the work ended, milliseconds since the epoch; the time of its storing if absent
     */
    timestamp?: number | null;
    /**
     * a number reads as its text
     */
    error_code?: string | number | null;
    /**
     * of a rate limit: milliseconds until the provider may be asked again
     */
    retry_after_ms?: number | null;
    error_message?: string | null;
    /**
     * of a workflow; for other readers
     */
    run_id?: unknown;
    /**
     * of a workflow; for other readers
     */
    flow_id?: unknown;
    /**
     * of a workflow; for other readers
     */
    step_id?: unknown;
    /**
     * the output, any JSON value; for other readers
     */
    payload?: unknown;
    /**
     * "base64" where the payload is bytes in base64
     */
    payload_encoding?: unknown;
    /**
     * for other readers
     */
    metadata?: unknown;
  };
}

/**
 * What a worker says of bytes that it could not read as an assignment. Fields that are not known are ignored. docs/reference/contracts.md#workers-dead-letters
 */
export type UnreadReport = UnreadReportBare | UnreadReportEnveloped;

export interface UnreadReportBare {
  /**
   * the version of the contract
   */
  version?: unknown;
  /**
   * dead_letter
   */
  kind?: unknown;
  /**
   * a code, like PARSE_ERROR; operators see it
   */
  reason: string;
  /**
   * words for operators
   */
  message?: unknown;
  /**
   * where the bytes came from
   */
  payload_ref?: {
    /**
     * the subject that they came on
     */
    subject?: unknown;
    /**
     * how many bytes they are
     */
    len?: unknown;
  };
  /**
   * when the worker received them, ISO 8601
   */
  ts?: unknown;
  /**
   * where it could be read
   */
  tenant_id?: unknown;
  /**
   * where it could be read
   */
  trace_id?: unknown;
  /**
   * where it could be read
   */
  request_id?: unknown;
  /**
   * where it could be read
   */
  assignment_id?: unknown;
}
export interface UnreadReportEnveloped {
  /**
   * the version of the contract
   */
  version?: unknown;
  /**
   * dead_letter
   */
  kind?: unknown;
  data: {
    /**
     * a code, like PARSE_ERROR; operators see it
     */
    reason: string;
    /**
     * words for operators
     */
    message?: unknown;
    /**
     * where the bytes came from
     */
    payload_ref?: {
      /**
       * the subject that they came on
       */
      subject?: unknown;
      /**
       * how many bytes they are
       */
      len?: unknown;
    };
    /**
     * when the worker received them, ISO 8601
     */
    ts?: unknown;
    /**
     * where it could be read
     */
    tenant_id?: unknown;
    /**
     * where it could be read
     */
    trace_id?: unknown;
    /**
     * where it could be read
     */
    request_id?: unknown;
    /**
     * where it could be read
     */
    assignment_id?: unknown;
  };
}

/**
 * What one outcome cost, once, or an adjustment of it. Its Nats-Msg-Id is `event_id`, else derived from its ids and status. Fields that are not known are ignored. docs/reference/contracts.md#usage
 */
export interface UsageEvent {
  version: "1";
  /**
   * 1..128 of A-Z a-z 0-9 _ . : - and not start with . or _
   */
  tenant_id: string;
  provider_id: string;
  /**
   * the type of the job; of an invocation provider.invoke or provider.invoke.stream; usage.adjustment
   */
  event_type: string;
  latency_ms: number;
  /**
   * with a decimal point; only an adjustment's is below 0
   */
  cost: number;
  status: "cancelled" | "error" | "success" | "timeout";
  /**
   * milliseconds since the epoch
   */
  timestamp: number;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  trace_id?: string;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  assignment_id?: string;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  request_id?: string;
  /**
   * its identity, where the router made it; else it is derived from the ids
   */
  event_id?: string;
  /**
   * what the provider says that it used
   */
  model?: string;
  /**
   * tokens of the input
   */
  input_tokens?: number;
  /**
   * of these, what the provider had cached
   */
  cached_tokens?: number;
  /**
   * tokens of the output
   */
  output_tokens?: number;
  /**
   * the version of the price by which the cost was computed
   */
  price?: string;
  /**
   * computed from what passed by
   */
  estimated?: true;
  /**
   * what the worker told; the cost is the bound, and the rest is held
   */
  told_cost?: number;
  /**
   * whom the worker named, where the assignment has another provider
   */
  told_provider_id?: string;
  /**
   * why an adjustment was made; no outcome has it
   */
  adjustment?: "bill" | "budget" | "held" | "outcome";
  /**
   * the identity of the event that it corrects
   */
  adjusts?: string;
  /**
   * the one budget in which the adjustment counts
   */
  budget?: string;
  /**
   * an operator's word
   */
  reason?: string;
  /**
   * its assignment is not known: it spends no budget
   */
  correlated?: false;
}

/**
 * Who broke which rule of the header contract; never a value of a header. Fields that are not known are ignored. docs/reference/contracts.md#violation-events
 */
export interface ContractViolation {
  version: "1";
  /**
   * the consumer that read it: decide, results or acks
   */
  subscription: string;
  subject: string;
  /**
   * its name; `headers`: all of them together
   */
  header: string;
  rule: "empty" | "malformed" | "unsupported" | "not_w3c" | "unknown" | "missing" | "mismatch" | "forbidden" | "too_large";
  /**
   * what the header should be
   */
  expected: string;
  /**
   * when the violation was counted, milliseconds since the epoch
   */
  timestamp: number;
  router_node_id: string;
  /**
   * violations that this event stands for: itself, and those that were left out
   */
  count: number;
  /**
   * of these, how many are the first violation of their message
   */
  messages: number;
  /**
   * absent: it could not be read
   */
  tenant_id?: string;
  /**
   * the event stands for violations of several tenants
   */
  several_tenants?: true;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  message_id?: string;
  /**
   * 1..128 printable ASCII characters without spaces
   */
  trace_id?: string;
  /**
   * where the message stands; absent: the listener refused it, and no stream has it
   */
  stream?: string;
  sequence?: number;
  /**
   * of the requester: each role has its own
   */
  inbox_prefix?: string;
}

/** The type of each message, by the name of its schema. */
export interface Messages {
  "ack": ExecAssignmentAck;
  "alert": Alert;
  "answer": RouteAnswer;
  "assignment": ExecAssignment;
  "audit": AuditEvent;
  "chunk": StreamChunk;
  "dead-letter": DeadLetter;
  "decide": RouteRequest;
  "envelope": MessageEnvelope;
  "extension-message": ExtensionMessage;
  "extension-request": ExtensionRequest;
  "extension-verdict": ExtensionVerdict;
  "heartbeat": Heartbeat;
  "ingress-ack": IngressAck;
  "ingress": IngressMessage;
  "provider-answer": ProviderAnswer;
  "provider-call": ProviderCall;
  "provider-request": ProviderRequest;
  "provider-response": ProviderResponse;
  "result": ExecResult;
  "unread-report": UnreadReport;
  "usage": UsageEvent;
  "violation": ContractViolation;
}
