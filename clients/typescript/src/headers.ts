// The headers of the contract, as this client sends them.
import { headers, type MsgHdrs, nuid } from "@nats-io/nats-core";

export const VERSION = "1";
export const MESSAGE_ID = "Nats-Msg-Id";
export const REPLY_TO = "Reply-To";
export const DEADLINE = "Router-Deadline-Ms";
export const STREAM = "Router-Stream";
export const ERROR_CODE = "Nats-Service-Error-Code";
export const ERROR = "Nats-Service-Error";

/** What a request says of itself; an id that is absent, null or empty is made here, but the tenant's. */
export interface Identity {
  tenantId?: string | null | undefined;
  traceId?: string | null | undefined;
  traceparent?: string | undefined;
  messageId?: string | undefined;
}

export function buildHeaders(identity: Identity, others: Readonly<Record<string, string>> = {}): MsgHdrs {
  const built = headers();
  built.set("version", VERSION);
  if (identity.tenantId) built.set("tenant_id", identity.tenantId);
  built.set("trace_id", identity.traceId || newTraceId());
  if (identity.traceparent) built.set("traceparent", identity.traceparent);
  built.set(MESSAGE_ID, identity.messageId ?? nuid.next());
  for (const [name, value] of Object.entries(others)) built.set(name, value);
  return built;
}

/** 32 hexadecimal digits. Pages without https have no `crypto.randomUUID`. */
export function newTraceId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Whether a message is the server's word that the subject has no subscriber. */
export function isNoResponders(data: Uint8Array, found: MsgHdrs | undefined): boolean {
  return data.length === 0 && found?.code === 503;
}
