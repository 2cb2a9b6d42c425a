// What an extension is asked, read and checked; what is wrong is refused with 4xx, which the router does not try again.
import { Refusal } from "./refusal.js";
import type { ExtensionRequest, ProviderCall } from "./messages.js";
import { decode, isObject } from "./payload.js";

const MAX_BYTES = 1_245_184; // 1 MiB for a message, and its context, its config and what names them
const MAX_DEPTH = 64;
const TENANT = /^[A-Za-z0-9:-][A-Za-z0-9_.:-]{0,127}$/;
const ID = /^[\x21-\x7e]{0,128}$/;

/** Throws Refusal. */
export function readExtensionRequest(data: Uint8Array): ExtensionRequest {
  const body = readBody(data);
  const message = body["payload"];
  if (!isObject(message)) throw refuse("payload", "an object");
  if (!("payload" in message)) throw refuse("payload.payload", "any JSON value");
  checkTextOrAbsent(message, "message_type", "payload.message_type");
  const whole = { ...message, message_type: message["message_type"] ?? "", metadata: readPart(message, "metadata") };
  return {
    ...body,
    trace_id: body["trace_id"] ?? "",
    payload: whole,
    metadata: readPart(body, "metadata"),
    config: readPart(body, "config"),
  } as unknown as ExtensionRequest;
}

/** Throws Refusal. */
export function readProviderCall(data: Uint8Array): ProviderCall {
  const body = readBody(data);
  if (typeof body["provider_id"] !== "string") throw refuse("provider_id", "text");
  if (typeof body["prompt"] !== "string") throw refuse("prompt", "text");
  const parts = { parameters: readPart(body, "parameters"), context: readPart(body, "context") };
  return { ...body, trace_id: body["trace_id"] ?? "", ...parts } as unknown as ProviderCall;
}

function readBody(data: Uint8Array): Record<string, unknown> {
  if (data.length > MAX_BYTES)
    throw new Refusal(413, "payload_too_large", `The request of ${data.length} bytes is larger than ${MAX_BYTES}`);
  let body;
  try {
    body = decode(data);
  } catch {
    throw new Refusal(400, "invalid_request", "Invalid request: it is no JSON object");
  }
  if (isDeeper(body, MAX_DEPTH)) throw new Refusal(400, "invalid_request", `Invalid request: it is nested deeper than ${MAX_DEPTH}`);
  const { tenant_id: tenant, trace_id: trace } = body;
  if (typeof tenant !== "string" || !TENANT.test(tenant)) {
    throw refuse("tenant_id", "1..128 of A-Z a-z 0-9 _ . : - and not start with . or _");
  }
  const isTrace = trace === undefined || trace === null || (typeof trace === "string" && ID.test(trace));
  if (!isTrace) throw refuse("trace_id", "1..128 printable ASCII characters without spaces");
  return body;
}

function readPart(body: Record<string, unknown>, name: string): Record<string, unknown> {
  const part = body[name] ?? {};
  if (!isObject(part)) throw refuse(name, "an object");
  return part;
}

function checkTextOrAbsent(body: Record<string, unknown>, name: string, place: string): void {
  const value = body[name];
  if (value !== undefined && value !== null && typeof value !== "string") throw refuse(place, "text");
}

function isDeeper(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return depth === 0 || Object.values(value).some((inner) => isDeeper(inner, depth - 1));
}

function refuse(field: string, legal: string): Refusal {
  return new Refusal(400, "invalid_request", `Invalid field: ${field} must be ${legal}`, field);
}
