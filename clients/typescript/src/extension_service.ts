// Serves one extension: listens in a queue group, answers each request once, or with a stream.
import { createInbox, type Msg, type NatsConnection, type Subscription } from "@nats-io/nats-core";
import { type Extension, type Pieces, type Provider, subjectOf } from "./extension.js";
import { readExtensionRequest, readProviderCall } from "./extension_requests.js";
import { buildErrorHeaders, describe, readTimeLeft, toRefusal } from "./extension_errors.js";
import { STREAM } from "./headers.js";
import type { ProviderAnswer } from "./messages.js";
import { encode } from "./payload.js";
import { Refusal } from "./refusal.js";

const FLUSH_EVERY = 32; // chunks: a generator that never waits must let the socket send

export interface ServeOptions {
  /** Requests at work at once; 64. More wait. */
  concurrency?: number;
  /** Requests that may wait; 4096. What comes above is answered 503. */
  waiting?: number;
  /** Ids of this process among the `instances` of the registry: each is a subject of its own below the extension's. */
  instances?: readonly string[];
  /** Answers go to addresses under these alone; `_INBOX.` and `_R_.` */
  replyPrefixes?: readonly string[];
}

interface Accepted {
  message: Msg;
  reply: string;
  controller: AbortController;
  timer: ReturnType<typeof setTimeout> | undefined;
}

export class ExtensionService {
  readonly subject: string;
  readonly #connection: NatsConnection;
  readonly #extension: Extension;
  readonly #options: Required<ServeOptions>;
  readonly #subscriptions: Subscription[];
  readonly #waiting: Accepted[] = [];
  readonly #working = new Map<Accepted, Promise<void>>();
  #isStopping = false;
  #stopped: Promise<void> | undefined;

  constructor(connection: NatsConnection, extension: Extension, options: ServeOptions) {
    this.subject = subjectOf(extension);
    this.#connection = connection;
    this.#extension = extension;
    this.#options = { concurrency: 64, waiting: 4096, instances: [], replyPrefixes: ["_INBOX.", "_R_."], ...options };
    const subjects = [this.subject, ...this.#options.instances.map((instance) => `${this.subject}.${instance}`)];
    const callback = (error: Error | null, message: Msg): void => (error === null ? this.#accept(message) : undefined);
    this.#subscriptions = subjects.map((subject) => connection.subscribe(subject, { queue: extension.id, callback }));
  }

  /** Takes no more requests, finishes those at work within `drain` milliseconds, and answers the rest 503. */
  stop(drain = 10_000): Promise<void> {
    this.#stopped ??= this.#drain(drain);
    return this.#stopped;
  }

  async #drain(drain: number): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#subscriptions.map((subscription) => subscription.drain()));
    for (const accepted of this.#waiting.splice(0)) this.#decline(accepted, STOPPING);
    const late = setTimeout(() => this.#working.forEach((_, accepted) => accepted.controller.abort(STOPPING)), drain);
    await Promise.allSettled(this.#working.values());
    clearTimeout(late);
    await this.#connection.flush();
  }

  #accept(message: Msg): void {
    const reply = message.reply ?? "";
    if (!this.#options.replyPrefixes.some((prefix) => reply.startsWith(prefix))) return; // an address is input: a request chooses it
    const left = readTimeLeft(message.headers);
    const controller = new AbortController();
    const timer = left === undefined ? undefined : setTimeout(() => controller.abort(OVERDUE), left);
    const accepted = { message, reply, controller, timer };
    if (left !== undefined && left <= 0) this.#decline(accepted, OVERDUE);
    else if (this.#isStopping) this.#decline(accepted, STOPPING);
    else if (this.#working.size < this.#options.concurrency) this.#begin(accepted);
    else if (this.#waiting.length < this.#options.waiting) this.#waiting.push(accepted);
    else this.#decline(accepted, OVERLOADED);
  }

  #begin(accepted: Accepted): void {
    const work = this.#answer(accepted).catch((error: unknown) => this.#decline(accepted, toRefusal(error)));
    this.#working.set(accepted, work);
    void work.finally(() => {
      clearTimeout(accepted.timer);
      this.#working.delete(accepted);
      this.#beginNext();
    });
  }

  #beginNext(): void {
    const next = this.#waiting.shift();
    if (next === undefined) return;
    if (!next.controller.signal.aborted) return this.#begin(next);
    this.#decline(next, OVERDUE);
    this.#beginNext();
  }

  async #answer(accepted: Accepted): Promise<void> {
    const { message, controller, reply } = accepted;
    const call = { headers: message.headers, signal: controller.signal };
    if (this.#extension.kind !== "provider") {
      const answer = this.#extension.handle(readExtensionRequest(message.data), call);
      this.#connection.publish(reply, encode(await beforeAbort(answer, controller.signal)));
      return;
    }
    const request = readProviderCall(message.data);
    const answer = this.#extension.handle(request, call);
    if (isPieces(answer) && message.headers?.get(STREAM) === "true") await this.#stream(accepted, answer);
    else this.#connection.publish(reply, encode(await beforeAbort(isPieces(answer) ? join(answer) : answer, controller.signal)));
  }

  /** Chunks until the last one, or until it has no reader: the server says so on the reply subject that each of them names. */
  async #stream({ reply, controller }: Accepted, pieces: Pieces): Promise<void> {
    const own = createInbox();
    const gone = this.#connection.subscribe(own, { callback: () => controller.abort(GONE) });
    const stopped = rejectOnAbort(controller.signal);
    try {
      for (let count = 1; ; count += 1) {
        const piece = await Promise.race([pieces.next(), stopped]);
        this.#connection.publish(reply, encode(toChunk(piece)), { reply: own });
        if (piece.done === true) break;
        if (count % FLUSH_EVERY === 0) await this.#connection.flush();
      }
    } catch (error) {
      if (controller.signal.reason !== GONE) this.#connection.publish(reply, encode(breakOff(toRefusal(error))));
    } finally {
      gone.unsubscribe();
      void pieces.return(undefined).catch(() => undefined);
    }
  }

  #decline(accepted: Accepted, refusal: Refusal): void {
    clearTimeout(accepted.timer);
    this.#connection.publish(accepted.reply, encode(describe(refusal)), { headers: buildErrorHeaders(refusal) });
  }
}

const STOPPING = new Refusal(503, "stopping", "This instance is stopping; ask again");
const OVERLOADED = new Refusal(503, "overloaded", "Too many requests wait; ask again");
const OVERDUE = new Refusal(504, "deadline_exceeded", "The deadline of this request is over");
const GONE = new Refusal(499, "reader_gone", "This stream has no reader any more");

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  const rejected = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
  rejected.catch(() => undefined); // it may be awaited no more when it comes
  return rejected;
}

async function beforeAbort<T>(answer: T | Promise<T>, signal: AbortSignal): Promise<T> {
  return answer instanceof Promise ? Promise.race([answer, rejectOnAbort(signal)]) : answer;
}

function isPieces(answer: ReturnType<Provider["handle"]>): answer is Pieces {
  return Symbol.asyncIterator in answer;
}

/** All texts of a stream as one answer, for a caller that asked for one. */
async function join(pieces: Pieces): Promise<ProviderAnswer> {
  let output = "";
  for (;;) {
    const piece = await pieces.next();
    if (piece.done === true) return { output, ...piece.value };
    output += piece.value;
  }
}

function toChunk(piece: IteratorResult<string, Omit<ProviderAnswer, "output"> | void>) {
  if (piece.done !== true) return { data: piece.value, done: false };
  const { usage, cost, metadata } = piece.value ?? {};
  const told = (usage ?? {}) as Record<string, unknown>; // its schema takes anything: what is not legal is as if it were absent
  const figures = { ...metadata, ...told, ...(cost === undefined ? {} : { cost }) };
  const texts = Object.entries(figures).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]);
  return { data: "", done: true, metadata: Object.fromEntries(texts) as Record<string, string> };
}

function breakOff(refusal: Refusal) {
  const fault = refusal.status < 500 ? { fault: "request" } : {};
  return { data: "", done: true, metadata: { status: "error", error_code: refusal.code, error_message: refusal.message, ...fault } };
}
