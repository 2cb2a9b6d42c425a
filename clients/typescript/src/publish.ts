// Decide requests that are published: a publish ack comes back, and the decision goes to an address that may be read later, or elsewhere.
import { AckPolicy, jetstream, jetstreamManager, type JsMsg, type PubAck } from "@nats-io/jetstream";
import type { Msg, NatsConnection } from "@nats-io/nats-core";
import { identify, readAnswer } from "./decide.js";
import { buildHeaders, REPLY_TO } from "./headers.js";
import type { RouteAnswer, RouteRequest } from "./messages.js";
import { encode } from "./payload.js";

export interface PublishOptions {
  /** The stream that keeps the requests, `ROUTER_DECIDE`: it is named in each request, so that the router sends a publish ack. */
  stream?: string;
  /** Where the decision goes: a subject under the router's `reply.prefixes`. Without one it goes to the reply subject. */
  replyTo?: string;
  /** Milliseconds that each attempt waits for the publish ack; the client's `timeout`, 5000. */
  timeout?: number;
  /** How often the same message is published while no publish ack comes; 1. */
  attempts?: number;
  traceparent?: string;
  messageId?: string;
}

export interface AnswersOptions {
  /** Where decisions come; the reply subject, or what was given as `replyTo` (it may have wildcards). */
  subject?: string;
  /** A stream that keeps that subject. Without one, what comes while no reader listens is lost. */
  stream?: string;
  /** The stream's consumer, made if it is not there; readers that share it share the answers. Default: `router-answers`. */
  durable?: string;
  /** The queue group of readers, where there is no stream. */
  queue?: string;
  /** Ends the loop while it waits. */
  signal?: AbortSignal;
}

/** One decision, and where it came. `context.request_id` says whose it is. */
export interface ReceivedAnswer {
  answer: RouteAnswer;
  subject: string;
}

export async function publishRequest(
  connection: NatsConnection,
  subject: string,
  request: RouteRequest,
  options: PublishOptions,
): Promise<PubAck> {
  const headers = buildHeaders(identify(request, options), options.replyTo === undefined ? {} : { [REPLY_TO]: options.replyTo });
  return jetstream(connection).publish(subject, encode(request), {
    headers,
    expect: { streamName: options.stream ?? "ROUTER_DECIDE" },
    timeout: options.timeout ?? 5000,
    retries: options.attempts ?? 1,
  });
}

/** Decisions as they come, until the loop is left. Of a stream, each is acked when the next one is asked for, so none is lost with its reader. */
export async function* receiveAnswers(
  connection: NatsConnection,
  subject: string,
  options: AnswersOptions,
): AsyncGenerator<ReceivedAnswer> {
  const address = options.subject ?? subject;
  if (options.stream !== undefined) {
    yield* consume(connection, { stream: options.stream, durable: options.durable ?? "router-answers", subject: address }, options.signal);
    return;
  }
  const subscription = connection.subscribe(address, options.queue === undefined ? {} : { queue: options.queue });
  options.signal?.addEventListener("abort", () => subscription.unsubscribe(), { once: true });
  for await (const message of subscription) {
    const answer = readIfAnswer(message);
    if (answer !== undefined) yield { answer, subject: message.subject };
  }
}

async function* consume(
  connection: NatsConnection,
  place: { stream: string; durable: string; subject: string },
  signal?: AbortSignal,
): AsyncGenerator<ReceivedAnswer> {
  const { stream, durable, subject } = place;
  const manager = await jetstreamManager(connection);
  await manager.consumers.add(stream, { durable_name: durable, ack_policy: AckPolicy.Explicit, filter_subject: subject });
  const consumer = await jetstream(connection).consumers.get(stream, durable);
  const aborted = new Promise<null>((resolve) => signal?.addEventListener("abort", () => resolve(null), { once: true }));
  while (signal?.aborted !== true) {
    const message = await Promise.race([consumer.next({ expires: PULL }), aborted]); // one at a time: what is pulled and not read comes late
    if (message !== null) yield* handOver(message);
  }
}

async function* handOver(message: JsMsg): AsyncGenerator<ReceivedAnswer> {
  const answer = readIfAnswer(message);
  let isDone = answer === undefined;
  try {
    if (answer !== undefined) yield { answer, subject: message.subject };
    isDone = true;
  } finally {
    if (isDone) message.ack();
    else message.nak(); // the loop was left at this one: another reader gets it
  }
}

const PULL = 5000; // milliseconds that one pull request waits

/** Other programs may publish to the subject too; what is no answer is passed over. */
function readIfAnswer(message: Pick<Msg, "data">): RouteAnswer | undefined {
  try {
    return readAnswer(message.data);
  } catch {
    return undefined;
  }
}
