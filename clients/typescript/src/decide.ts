// Decide requests: what travels, and what comes back.
import { BrokerRefused, RouterError } from "./errors.js";
import type { Identity } from "./headers.js";
import type { RouteAnswer, RouteRequest } from "./messages.js";
import { decode, isObject } from "./payload.js";

export const DECIDE = "beamline.router.v1.decide";

export interface DecideOptions {
  /** Milliseconds that each attempt waits; the client's `timeout`, 5000. */
  timeout?: number;
  /** How often the same message is sent while no answer comes; 1. */
  attempts?: number;
  /** W3C Trace Context. */
  traceparent?: string;
  /** The `Nats-Msg-Id`; one is made where none is given. */
  messageId?: string;
  /** Ends the waiting. The request may be decided all the same. */
  signal?: AbortSignal;
}

/** The ids of a request, from the place that the router would take. */
export function identify(request: RouteRequest, options: Pick<DecideOptions, "traceparent" | "messageId">): Identity {
  return {
    tenantId: request.tenant_id || request.message?.tenant_id,
    traceId: request.trace_id || request.message?.trace_id,
    traceparent: options.traceparent,
    messageId: options.messageId,
  };
}

/**
 * The answer; undefined for a publish ack, which only says that the request is stored (`reply.confirm = stored`): the answer follows it.
 * Throws BrokerRefused where the stream would not store the request.
 */
export function readAnswer(data: Uint8Array): RouteAnswer | undefined {
  const body = readObject(data);
  if (typeof body["ok"] === "boolean" && isObject(body[body["ok"] ? "decision" : "error"])) return body as unknown as RouteAnswer;
  const refused = body["error"];
  if (isObject(refused) && "err_code" in refused)
    throw new BrokerRefused(Number(refused["err_code"]), String(refused["description"] ?? ""));
  if (typeof body["stream"] === "string") return undefined;
  throw new RouterError("no_answer", "what came back is not an answer of a router");
}

/** A JSON object of the router. Throws RouterError for anything else. */
export function readObject(data: Uint8Array): Record<string, unknown> {
  try {
    return decode(data);
  } catch (error) {
    throw new RouterError("no_answer", "what came back is not an answer of a router", { cause: error });
  }
}
