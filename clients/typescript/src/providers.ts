// Providers, invoked through the router: once, or as a stream.
import { createInbox, type Msg, type NatsConnection } from "@nats-io/nats-core";
import type { ConnectionWatch } from "./connection_watch.js";
import { readObject } from "./decide.js";
import { ConnectionLost, InvocationFailed, NoRouter, RouterError, Unanswered } from "./errors.js";
import { buildHeaders, DEADLINE, isNoResponders } from "./headers.js";
import type { ProviderRequestBare, ProviderResponse, StreamChunk } from "./messages.js";
import { encode, isObject } from "./payload.js";

export const INVOKE = "beamline.provider.v1.invoke";
export const INVOKE_STREAM = "beamline.provider.v1.invoke.stream";

const LONGEST_SILENCE = 65_000; // above what a registry entry may grant a provider: the router speaks first
const MARGIN = 100; // milliseconds, so that the router's own word about a timeout is still heard
const MAX_BUFFERED = 8 * 1024 * 1024; // bytes that a reader may be behind

export interface InvokeOptions {
  /** Milliseconds for the whole invocation; the provider gets what is left of it. 30 000; of a stream 300 000. */
  timeout?: number;
  traceparent?: string;
  signal?: AbortSignal;
}

export function buildInvocation(request: ProviderRequestBare, timeout: number, options: InvokeOptions, replyTo?: string) {
  const left = Math.max(1, Math.round(timeout - Math.min(MARGIN, timeout / 10)));
  const identity = { tenantId: request.tenant_id, traceId: request.trace_id, traceparent: options.traceparent };
  const headers = buildHeaders(request.message_id ? { ...identity, messageId: request.message_id } : identity, {
    [DEADLINE]: String(left),
  });
  if (replyTo !== undefined) headers.set("Reply-To", replyTo);
  return { data: encode(request), headers };
}

export function readResponse(data: Uint8Array): ProviderResponse {
  const body = readObject(data);
  if (typeof body["status"] !== "string" || typeof body["body"] !== "string") {
    throw new RouterError("no_answer", "what came back is not the response of a provider");
  }
  return body as unknown as ProviderResponse;
}

/**
 * The chunks as they come; the last one is `done`, and its metadata says what the whole took. A loop that is left early stops the
 * stream at its source. Throws InvocationFailed in place of a last chunk that says so, and ConnectionLost: nothing is missed in silence.
 */
export async function* streamChunks(
  connection: NatsConnection,
  watch: ConnectionWatch,
  request: ProviderRequestBare,
  options: InvokeOptions,
  inboxPrefix?: string,
): AsyncGenerator<StreamChunk> {
  if (connection.isClosed()) throw new ConnectionLost();
  const timeout = options.timeout ?? 300_000;
  const { data, headers } = buildInvocation(request, timeout, options);
  const pieces = new Pieces(connection, watch, Math.min(timeout, LONGEST_SILENCE), inboxPrefix, options.signal);
  try {
    connection.publish(INVOKE_STREAM, data, { reply: pieces.inbox, headers });
    for (let count = 1; ; count += 1) {
      const chunk = readChunk(await pieces.next());
      check(chunk, count);
      yield chunk;
      if (chunk.done) return;
    }
  } finally {
    pieces.close();
  }
}

function readChunk(data: Uint8Array): StreamChunk {
  const body = readObject(data);
  if (typeof body["done"] !== "boolean") throw new RouterError("no_answer", "what came is not a chunk of a stream");
  return body as unknown as StreamChunk;
}

function check(chunk: StreamChunk, count: number): void {
  const metadata = isObject(chunk.metadata) ? chunk.metadata : {};
  if (!chunk.done) return;
  if ((metadata["status"] ?? "success") !== "success") {
    throw new InvocationFailed(
      String(metadata["error_code"] ?? "internal"),
      String(metadata["error_message"] ?? "the stream failed"),
      metadata,
    );
  }
  const sent = metadata["chunks"];
  if (sent !== undefined && sent !== String(count)) {
    throw new InvocationFailed("stream_broken", `${count} chunks of ${String(sent)} arrived`, metadata);
  }
}

/** The messages of one inbox, one after the other. Once the connection was lost none is given out: some may be missing. */
class Pieces {
  readonly inbox: string;
  readonly #silence: number;
  readonly #waiting: Uint8Array[] = [];
  readonly #close: (() => void)[] = [];
  #size = 0;
  #error: Error | undefined;
  #wake: (() => void) | undefined;

  constructor(connection: NatsConnection, watch: ConnectionWatch, silence: number, inboxPrefix?: string, signal?: AbortSignal) {
    this.inbox = createInbox(inboxPrefix);
    this.#silence = silence;
    const subscription = connection.subscribe(this.inbox, { callback: (error, message) => this.#onMessage(error, message) });
    const onAbort = (): void => this.#fail(signal?.reason as Error);
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted === true) onAbort();
    this.#close.push(
      () => subscription.unsubscribe(),
      () => signal?.removeEventListener("abort", onAbort),
      watch.onLost(() => this.#fail(new ConnectionLost())),
    );
  }

  async next(): Promise<Uint8Array> {
    if (this.#waiting.length === 0 && this.#error === undefined) await this.#waitForNews();
    const piece = this.#waiting.shift();
    if (piece !== undefined) {
      this.#size -= piece.length;
      return piece;
    }
    throw this.#error ?? new Unanswered(INVOKE_STREAM, this.#silence, 1);
  }

  close(): void {
    for (const close of this.#close) close();
  }

  #waitForNews(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, this.#silence);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #onMessage(error: Error | null, message: Msg): void {
    if (this.#error !== undefined) return;
    if (error !== null) return this.#fail(error);
    if (isNoResponders(message.data, message.headers)) return this.#fail(new NoRouter(INVOKE_STREAM));
    if (this.#size + message.data.length > MAX_BUFFERED) {
      return this.#fail(new InvocationFailed("stream_overrun", `the reader is more than ${MAX_BUFFERED} bytes behind`));
    }
    this.#size += message.data.length;
    this.#waiting.push(message.data);
    this.#wake?.();
  }

  #fail(error: Error): void {
    this.#error ??= error;
    this.#wake?.();
  }
}
