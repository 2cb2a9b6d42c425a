// Made by scripts/generate.mjs of the router's schemas; a test keeps it equal to them.

import type { Messages } from "beamline-router-client";

export const examples: { [name in keyof Messages]: Messages[name][] } = {
  "ack": [
    {
      "version": "1",
      "assignment_id": "0a4f0b52-3df5-5a1c-9d1e-2b8f3a3f6f10",
      "status": "accepted",
      "tenant_id": "acme",
      "request_id": "r-1"
    },
    {
      "assignment_id": "0a4f0b52-3df5-5a1c-9d1e-2b8f3a3f6f10",
      "status": "rejected",
      "message": "the queue is full"
    },
    {
      "version": "1",
      "kind": "exec_assignment_ack",
      "data": {
        "assignment_id": "0a4f0b52-3df5-5a1c-9d1e-2b8f3a3f6f10",
        "status": "error",
        "message": "not an image"
      }
    }
  ],
  "alert": [
    {
      "alert_id": "6b0a7c0e-3f5d-4f0b-9a64-1f2a3b4c5d6e",
      "severity": "warning",
      "component": "router.workers",
      "message": "Worker w-1 is silent",
      "timestamp": "2023-11-14T22:13:20.123Z",
      "metadata": {
        "worker_id": "w-1"
      }
    }
  ],
  "answer": [
    {
      "ok": true,
      "decision": {
        "provider_id": "openai",
        "reason": "weighted",
        "priority": 50,
        "expected_latency_ms": 800,
        "expected_cost": 0.012,
        "metadata": {
          "policy_id": "fast",
          "policy_version": "3"
        }
      },
      "context": {
        "request_id": "r-1",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"
      }
    },
    {
      "ok": true,
      "decision": {
        "provider_id": "openai",
        "reason": "weighted",
        "priority": 50,
        "expected_latency_ms": 800,
        "expected_cost": 0.012,
        "metadata": {
          "policy_id": "fast",
          "policy_version": "3"
        }
      },
      "context": {
        "request_id": "r-1"
      },
      "warnings": [
        {
          "code": "unknown_field",
          "message": "Unknown field polcy_id was ignored: did you mean policy_id?",
          "details": {
            "field": "polcy_id",
            "did_you_mean": "policy_id"
          }
        }
      ]
    },
    {
      "ok": true,
      "decision": {
        "provider_id": "openai",
        "reason": "weighted",
        "priority": 50,
        "expected_latency_ms": 800,
        "expected_cost": 0.012,
        "metadata": {
          "policy_id": "fast",
          "policy_version": "3"
        }
      },
      "context": {
        "request_id": "r-1"
      },
      "message": {
        "message_type": "chat",
        "payload": {
          "text": "My card is [credit_card]"
        },
        "metadata": {
          "source": "gateway"
        }
      }
    },
    {
      "ok": false,
      "error": {
        "code": "invalid_request",
        "message": "Missing required field: tenant_id",
        "details": {
          "field": "message.tenant_id"
        }
      },
      "context": {
        "request_id": "r-1"
      }
    },
    {
      "ok": false,
      "error": {
        "code": "overloaded",
        "message": "Too many requests wait",
        "details": {
          "cause": "tenant_share",
          "retry_after_ms": 1000
        }
      },
      "context": {
        "request_id": "r-1",
        "trace_id": "t-1"
      }
    }
  ],
  "assignment": [
    {
      "version": "1",
      "assignment_id": "48e3f71c-1bd1-5cf3-b1bb-bb6ad5fbeab1",
      "request_id": "r-1",
      "tenant_id": "acme",
      "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
      "executor": {
        "provider_id": "openai",
        "channel": "nats"
      },
      "job": {
        "type": "chat",
        "payload": {
          "text": "Hello"
        }
      },
      "options": {
        "priority": 50,
        "deadline_ms": 5000,
        "retry": {
          "max_attempts": 2,
          "backoff_ms": 200
        }
      },
      "correlation": {
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"
      },
      "decision": {
        "provider_id": "openai",
        "reason": "weighted",
        "priority": 50,
        "expected_latency_ms": 800,
        "expected_cost": 0.012,
        "metadata": {
          "policy_id": "fast",
          "policy_version": "3"
        }
      },
      "metadata": {
        "source": "gateway"
      }
    }
  ],
  "audit": [
    {
      "version": "1",
      "id": "5f0c1d2e3a4b5c6d7e8f9a0b",
      "timestamp": 1700000000123,
      "by": "ops@host",
      "via": "cli",
      "router_node_id": "host:7",
      "command": "policy put",
      "target": "acme/default",
      "outcome": "done",
      "tenant_id": "acme",
      "before": {
        "version": 3
      },
      "after": {
        "version": 4
      }
    }
  ],
  "chunk": [
    {
      "request_id": "m-1",
      "data": "you ",
      "done": false,
      "metadata": {}
    },
    {
      "request_id": "m-1",
      "data": "said hello",
      "done": true,
      "metadata": {
        "status": "success",
        "chunks": "2",
        "latency_ms": "12",
        "completion_tokens": "3"
      }
    },
    {
      "data": "you ",
      "done": false
    }
  ],
  "dead-letter": [
    {
      "original_subject": "beamline.router.v1.decide",
      "msg_id": "m-1",
      "reason": "validation_failed",
      "error_code": "VALIDATION_FAILED",
      "received_at": 1700000000000,
      "original_payload_hash": "75382eba0f989b7b7abf038d5deb684ca0b877c724c94242e32ab5bd6b28d7f6",
      "validation_error": {
        "code": "SCHEMA_VALIDATION_FAILED",
        "message": "Missing required field: tenant_id",
        "severity": "error",
        "field": "message.tenant_id"
      },
      "context": {
        "msg_id": "m-1",
        "validation_stage": "schema"
      },
      "source": {
        "stream": "ROUTER_DECIDE",
        "consumer": "router-decide-consumer",
        "sequence": 17,
        "deliveries": 1,
        "attempts": 1
      },
      "timestamp": 1700000001000,
      "router_node_id": "host:7",
      "message": {
        "id": "m-1",
        "subject": "beamline.router.v1.decide",
        "headers": {
          "Nats-Msg-Id": "m-1"
        },
        "payload": "{\"message\":{\"message_type\":\"chat\",\"payload\":\"Hello\"}}"
      }
    },
    {
      "original_subject": "beamline.router.v1.decide",
      "msg_id": "m-1",
      "reason": "maxdeliver_exhausted",
      "error_code": "MAXDELIVER_EXHAUSTED",
      "received_at": 1700000000000,
      "original_payload_hash": "75382eba0f989b7b7abf038d5deb684ca0b877c724c94242e32ab5bd6b28d7f6",
      "last_error": {
        "code": "internal",
        "message": "the handler failed"
      },
      "context": {
        "msg_id": "m-1"
      },
      "source": {
        "stream": "ROUTER_DECIDE",
        "consumer": "router-decide-consumer",
        "sequence": 17,
        "deliveries": 1,
        "attempts": 1
      },
      "timestamp": 1700000001000,
      "router_node_id": "host:7",
      "message": {
        "id": "m-1",
        "subject": "beamline.router.v1.decide",
        "headers": {
          "Nats-Msg-Id": "m-1"
        },
        "payload": "{\"message\":{\"message_type\":\"chat\",\"payload\":\"Hello\"}}"
      }
    }
  ],
  "decide": [
    {
      "message": {
        "message_id": "m-1",
        "tenant_id": "acme",
        "message_type": "chat",
        "payload": {
          "text": "Hello"
        },
        "metadata": {
          "source": "gateway"
        }
      },
      "policy_id": "fast",
      "context": {
        "user_id": "u-1"
      }
    },
    {
      "version": "1",
      "tenant_id": "acme",
      "request_id": "3f1c0d1e-9d1b-4f5a-8f0e-0a3a5b8f2c11",
      "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
      "task": {
        "type": "summarise",
        "payload_ref": "s3://documents/17"
      },
      "constraints": {
        "max_latency_ms": 2000,
        "excluded_providers": [
          "openai"
        ]
      },
      "metadata": {
        "source": "batch"
      },
      "push_assignment": true
    },
    {
      "version": "1",
      "tenant_id": "acme",
      "request_id": "r-2",
      "trace_id": "t-2",
      "message": {
        "message_type": "image",
        "payload": "iVBORw0KGgo=",
        "payload_encoding": "base64"
      }
    },
    {
      "tenant_id": "acme",
      "message_type": "chat",
      "payload": "Hello",
      "message_id": "m-4",
      "idempotency_key": "order 17"
    }
  ],
  "envelope": [
    {
      "schema_version": "1.0",
      "message_type": "LoopCreated",
      "message_id": "5b1f6c1e-6f0d-4a52-8d0b-6f6f1d2f9a11",
      "correlation_id": "c-1",
      "causation_id": null,
      "timestamp": "2024-01-15T14:30:00.123Z",
      "actor_id": "user:17",
      "actor_kind": "HUMAN",
      "payload": {
        "loop_id": "l-1"
      },
      "idempotency_key": "LoopCreated:l-1"
    }
  ],
  "extension-message": [
    {
      "payload": {
        "message_type": "chat",
        "payload": {
          "text": "hello"
        }
      },
      "metadata": {
        "normalized": "true"
      }
    },
    {
      "payload": {
        "payload": "aGVsbG8=",
        "payload_encoding": "base64"
      }
    }
  ],
  "extension-request": [
    {
      "trace_id": "6f6ed2e6fc9641768999600d1afbd688",
      "tenant_id": "acme",
      "payload": {
        "message_id": "m-1",
        "message_type": "chat",
        "payload": {
          "text": "Hello"
        },
        "metadata": {
          "source": "gateway"
        }
      },
      "metadata": {
        "user_id": "u-1",
        "policy_id": "fast"
      },
      "config": {
        "lowercase": true
      }
    },
    {
      "trace_id": "6f6ed2e6fc9641768999600d1afbd688",
      "tenant_id": "acme",
      "payload": {
        "message_id": "m-1",
        "message_type": "chat",
        "payload": {
          "text": "Hello"
        },
        "metadata": {
          "source": "gateway"
        }
      },
      "metadata": {
        "user_id": "u-1",
        "policy_id": "fast",
        "decision": {
          "provider_id": "openai",
          "reason": "weighted",
          "priority": 50,
          "expected_latency_ms": 800,
          "expected_cost": 0.012,
          "metadata": {
            "policy_id": "fast",
            "policy_version": "3"
          }
        }
      },
      "config": {}
    }
  ],
  "extension-verdict": [
    {
      "status": "ok"
    },
    {
      "status": "reject",
      "reason": "pii_detected",
      "details": {
        "field": "payload",
        "pattern": "credit_card"
      }
    },
    {
      "valid": false,
      "reason": "too long"
    }
  ],
  "heartbeat": [
    {
      "worker_id": "w-1",
      "timestamp": 1700000000000,
      "status": "busy",
      "load": 0.75,
      "capacity": 4,
      "interval_ms": 5000
    },
    {
      "version": "1",
      "kind": "worker_heartbeat",
      "data": {
        "worker_id": "w-1",
        "timestamp": "2024-01-15T14:30:00Z",
        "status": "stopped"
      }
    }
  ],
  "ingress-ack": [
    {
      "status": "accepted",
      "timestamp_ms": 1700000000000,
      "message_id": "m-1",
      "correlation_id": "",
      "metadata": {
        "sequence": "17"
      }
    },
    {
      "status": "rejected",
      "timestamp_ms": 1700000000000,
      "message_id": "m-1",
      "correlation_id": "",
      "message": "Missing required field: tenant_id",
      "error_code": "invalid_request",
      "metadata": {}
    }
  ],
  "ingress": [
    {
      "message_id": "m-1",
      "tenant_id": "acme",
      "message_type": "chat",
      "payload": {
        "text": "Hello"
      },
      "correlation_id": "c-1",
      "policy_id": "fast",
      "timestamp_ms": 1700000000000
    },
    {
      "message_id": "m-2",
      "tenant_id": "acme",
      "type": "chat",
      "payload": "aGVsbG8=",
      "payload_encoding": "base64"
    }
  ],
  "provider-answer": [
    {
      "provider_id": "echo",
      "output": "you said hello",
      "usage": {
        "prompt_tokens": 1,
        "completion_tokens": 3,
        "cached_tokens": 0
      },
      "model": "parrot",
      "cost": 0.25,
      "metadata": {
        "source": "cache"
      }
    },
    {
      "output": {
        "text": "you said hello"
      }
    }
  ],
  "provider-call": [
    {
      "trace_id": "6f6ed2e6fc9641768999600d1afbd688",
      "tenant_id": "acme",
      "provider_id": "echo",
      "prompt": "hello",
      "parameters": {
        "temperature": 0
      },
      "context": {
        "user_id": "u-1"
      }
    },
    {
      "trace_id": "6f6ed2e6fc9641768999600d1afbd688",
      "tenant_id": "acme",
      "provider_id": "echo",
      "prompt": "hello",
      "parameters": {
        "temperature": 0
      },
      "context": {
        "user_id": "u-1"
      },
      "config": {
        "model": "parrot"
      }
    }
  ],
  "provider-request": [
    {
      "provider_id": "echo",
      "tenant_id": "acme",
      "message_id": "m-1",
      "trace_id": "6f6ed2e6fc9641768999600d1afbd688",
      "body": "hello",
      "parameters": {
        "temperature": 0
      },
      "metadata": {
        "user_id": "u-1"
      },
      "timestamp_ms": 1700000000000
    },
    {
      "provider_id": "echo",
      "tenant_id": "acme",
      "prompt": "aGVsbG8=",
      "payload_encoding": "base64"
    }
  ],
  "provider-response": [
    {
      "request_id": "m-1",
      "status": "success",
      "body": "you said hello",
      "metadata": {
        "model": "parrot",
        "prompt_tokens": "1"
      },
      "latency_ms": 12,
      "cost": 0.25,
      "timestamp_ms": 1700000000000
    },
    {
      "request_id": "m-1",
      "status": "timeout",
      "body": "",
      "metadata": {},
      "latency_ms": 2000,
      "cost": 0,
      "error_code": "extension_timeout",
      "error_message": "The provider did not answer in time",
      "timestamp_ms": 1700000000000
    }
  ],
  "result": [
    {
      "version": "1",
      "assignment_id": "0a4f0b52-3df5-5a1c-9d1e-2b8f3a3f6f10",
      "request_id": "r-1",
      "status": "success",
      "provider_id": "openai",
      "latency_ms": 812,
      "cost": 0.0123,
      "job": {
        "type": "chat"
      },
      "tenant_id": "acme",
      "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"
    },
    {
      "version": "1",
      "assignment_id": "0a4f0b52-3df5-5a1c-9d1e-2b8f3a3f6f10",
      "status": "error",
      "latency_ms": 40.5,
      "cost": 0,
      "error_code": 2001,
      "error_message": "the handler raised"
    },
    {
      "version": "1",
      "kind": "exec_result",
      "tenant_id": "acme",
      "data": {
        "assignment_id": "0a4f0b52-3df5-5a1c-9d1e-2b8f3a3f6f10",
        "request_id": "r-1",
        "status": "success",
        "provider_id": "openai",
        "latency_ms": 812,
        "cost": 0.0123,
        "job_type": "chat"
      }
    }
  ],
  "unread-report": [
    {
      "version": "1",
      "kind": "dead_letter",
      "data": {
        "reason": "PARSE_ERROR",
        "payload_ref": {
          "subject": "caf.exec.assign.v1",
          "len": 17
        },
        "ts": "2024-01-15T14:30:00Z"
      }
    },
    {
      "reason": "PARSE_ERROR",
      "payload_ref": {
        "subject": "caf.exec.assign.v1",
        "len": 17
      },
      "ts": "2024-01-15T14:30:00Z"
    }
  ],
  "usage": [
    {
      "version": "1",
      "tenant_id": "acme",
      "provider_id": "openai",
      "event_type": "chat",
      "latency_ms": 812,
      "cost": 0.0123,
      "status": "success",
      "timestamp": 1700000000500,
      "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
      "assignment_id": "0a4f0b52-3df5-5a1c-9d1e-2b8f3a3f6f10",
      "request_id": "r-1"
    }
  ],
  "violation": [
    {
      "version": "1",
      "subscription": "decide",
      "subject": "beamline.router.v1.decide",
      "header": "Nats-Msg-Id",
      "rule": "missing",
      "expected": "there and not empty, beside any contract header",
      "tenant_id": "beta",
      "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
      "stream": "ROUTER_DECIDE",
      "sequence": 17,
      "inbox_prefix": "_INBOX_gateway.one",
      "timestamp": 1700000000123,
      "router_node_id": "host:7",
      "count": 1,
      "messages": 1
    },
    {
      "version": "1",
      "subscription": "decide",
      "subject": "beamline.router.v1.decide",
      "header": "Nats-TTL",
      "rule": "forbidden",
      "expected": "absent: JetStream's control headers are not a requester's",
      "message_id": "m-1",
      "timestamp": 1700000000123,
      "router_node_id": "host:7",
      "count": 31,
      "messages": 31
    }
  ],
};
