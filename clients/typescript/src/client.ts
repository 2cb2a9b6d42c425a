// The client: decide requests, providers and extensions over one connection.
import type { PubAck } from "@nats-io/jetstream";
import { type NatsConnection, nuid, type PublishOptions as NatsPublishOptions } from "@nats-io/nats-core";
import { ConnectionWatch } from "./connection_watch.js";
import { DECIDE, type DecideOptions, identify, readAnswer } from "./decide.js";
import { ConnectionLost, RouterError, Unanswered } from "./errors.js";
import type { Extension } from "./extension.js";
import { ExtensionService, type ServeOptions } from "./extension_service.js";
import { buildHeaders, REPLY_TO } from "./headers.js";
import { ReplyInbox } from "./inbox.js";
import type { ProviderRequestBare, ProviderResponse, RouteAnswer, RouteRequest, StreamChunk } from "./messages.js";
import { encode } from "./payload.js";
import { buildInvocation, INVOKE, type InvokeOptions, readResponse, streamChunks } from "./providers.js";
import { type AnswersOptions, publishRequest, type PublishOptions, type ReceivedAnswer, receiveAnswers } from "./publish.js";

export interface RouterOptions {
  /** Where the router takes decide requests; `beamline.router.v1.decide`. */
  subject?: string;
  /** Where the router sends decisions that no inbox waits for; the subject and `.reply`. */
  replySubject?: string;
  /** Milliseconds that an attempt to ask or publish waits, where the call does not say; 5000. */
  timeout?: number;
  /** As the connection's `inboxPrefix`, where logins have inboxes of their own. */
  inboxPrefix?: string;
}

interface Outgoing {
  subject: string;
  data: Uint8Array;
  options: NatsPublishOptions;
}

interface Patience {
  timeout: number;
  attempts: number;
  signal: AbortSignal | undefined;
}

export class Router {
  readonly #subject: string;
  readonly #replySubject: string;
  readonly #timeout: number;
  readonly #inboxPrefix: string | undefined;
  readonly #watch: ConnectionWatch;
  readonly #inbox: ReplyInbox;
  readonly #services = new Set<ExtensionService>();

  constructor(
    readonly connection: NatsConnection,
    options: RouterOptions = {},
  ) {
    this.#subject = options.subject ?? DECIDE;
    this.#replySubject = options.replySubject ?? `${this.#subject}.reply`;
    this.#timeout = options.timeout ?? 5000;
    this.#inboxPrefix = options.inboxPrefix;
    this.#watch = new ConnectionWatch(connection);
    this.#inbox = new ReplyInbox(connection, this.#watch, options.inboxPrefix);
  }

  /**
   * Asks for a decision. A refusal is an answer too (`ok: false`). The request names its inbox and has a message id, so another router may
   * answer it, and it may be sent again. With a `request_id` it is the same request for ten minutes: one decision, one side effect.
   * Throws Unanswered, NoRouter, PermissionDenied, ConnectionLost.
   */
  decide(request: RouteRequest, options: DecideOptions = {}): Promise<RouteAnswer> {
    const token = nuid.next();
    const reply = this.#inbox.address(token);
    const headers = buildHeaders(identify(request, options), { [REPLY_TO]: reply });
    const outgoing = { subject: this.#subject, data: encode(request), options: { headers, reply } };
    return this.#ask(token, outgoing, readAnswer, {
      timeout: options.timeout ?? this.#timeout,
      attempts: options.attempts ?? 1,
      signal: options.signal,
    });
  }

  /** Publishes a request and returns its publish ack. The decision goes to `replyTo`, else to the reply subject: `answers` reads it. */
  async publish(request: RouteRequest, options: PublishOptions = {}): Promise<PubAck> {
    this.#checkOpen();
    return publishRequest(this.connection, this.#subject, request, { timeout: this.#timeout, ...options });
  }

  /** Decisions that no inbox waits for, until the loop is left. */
  answers(options: AnswersOptions = {}): AsyncGenerator<ReceivedAnswer> {
    return receiveAnswers(this.connection, this.#replySubject, options);
  }

  /** Invokes a provider of the registry: one response, which may say no. Throws as `decide` does. */
  invoke(request: ProviderRequestBare, options: InvokeOptions = {}): Promise<ProviderResponse> {
    const token = nuid.next();
    const reply = this.#inbox.address(token);
    const timeout = options.timeout ?? 30_000;
    const { data, headers } = buildInvocation({ message_id: token, ...request }, timeout, options, reply);
    const outgoing = { subject: INVOKE, data, options: { headers, reply } };
    return this.#ask(token, outgoing, readResponse, { timeout, attempts: 1, signal: options.signal });
  }

  /** The same as a stream of chunks. A loop that is left early stops the provider. */
  stream(request: ProviderRequestBare, options: InvokeOptions = {}): AsyncGenerator<StreamChunk> {
    return streamChunks(this.connection, this.#watch, { message_id: nuid.next(), ...request }, options, this.#inboxPrefix);
  }

  /** Serves an extension, once this returns. The router calls it where its registry has an entry for it. */
  async serve(extension: Extension, options: ServeOptions = {}): Promise<ExtensionService> {
    const service = new ExtensionService(this.connection, extension, options);
    this.#services.add(service);
    await this.connection.flush();
    return service;
  }

  /** Stops what is served, and closes the connection. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.#services].map((service) => service.stop()));
    await this.connection.close();
  }

  async #ask<T>(token: string, out: Outgoing, read: (data: Uint8Array) => T | undefined, patience: Patience): Promise<T> {
    const { timeout, attempts, signal } = patience;
    signal?.throwIfAborted();
    this.#checkOpen();
    this.#checkSize(out.data);
    const answer = this.#inbox.wait(token, out.subject, read, signal);
    try {
      for (let attempt = 1; attempt <= attempts; attempt += 1) {
        this.connection.publish(out.subject, out.data, out.options);
        const found = await within(answer, timeout);
        if (found !== EXPIRED) return found;
      }
      throw new Unanswered(out.subject, timeout, attempts);
    } finally {
      this.#inbox.forget(token);
    }
  }

  #checkOpen(): void {
    if (this.connection.isClosed()) throw new ConnectionLost();
  }

  /** The server closes the connection of a client that sends more. */
  #checkSize(data: Uint8Array): void {
    const limit = this.connection.info?.max_payload ?? Number.POSITIVE_INFINITY;
    if (data.length + HEADERS_ROOM > limit) {
      throw new RouterError("payload_too_large", `a request of ${data.length} bytes is above the server's limit of ${limit}`);
    }
  }
}

const HEADERS_ROOM = 1024; // bytes
const EXPIRED = Symbol("expired");

/** The answer, or EXPIRED after `timeout` milliseconds. */
async function within<T>(answer: Promise<T>, timeout: number): Promise<T | typeof EXPIRED> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const expired = new Promise<typeof EXPIRED>((resolve) => {
    timer = setTimeout(() => resolve(EXPIRED), timeout);
  });
  try {
    return await Promise.race([answer, expired]);
  } finally {
    clearTimeout(timer);
  }
}
