// One subscription for the answers to all requests of a client; the last token of the inbox names the request.
import { createInbox, type Msg, type NatsConnection, type Subscription } from "@nats-io/nats-core";
import type { ConnectionWatch } from "./connection_watch.js";
import { ConnectionLost, NoRouter, PermissionDenied } from "./errors.js";
import { isNoResponders } from "./headers.js";

interface Waiting {
  subject: string;
  onMessage: (message: Msg) => void;
  onError: (error: Error) => void;
}

export class ReplyInbox {
  readonly #connection: NatsConnection;
  readonly #prefix: string;
  readonly #waiting = new Map<string, Waiting>();
  #subscription: Subscription | undefined;

  constructor(connection: NatsConnection, watch: ConnectionWatch, inboxPrefix?: string) {
    this.#connection = connection;
    this.#prefix = createInbox(inboxPrefix);
    watch.onDenied((subject, cause) => this.#fail(new PermissionDenied(subject, { cause }), subject));
    void connection.closed().then(() => this.#fail(new ConnectionLost()));
  }

  address(token: string): string {
    return `${this.#prefix}.${token}`;
  }

  /** The first message for this token that `read` takes for an answer; it returns undefined for any other, and throws for a refusal. */
  wait<T>(token: string, subject: string, read: (data: Uint8Array) => T | undefined, signal?: AbortSignal): Promise<T> {
    const callback = (error: Error | null, message: Msg): void => this.#dispatch(error, message);
    this.#subscription ??= this.#connection.subscribe(`${this.#prefix}.*`, { callback });
    return new Promise<T>((resolve, reject) => {
      const onMessage = (message: Msg): void => {
        try {
          if (isNoResponders(message.data, message.headers)) throw new NoRouter(subject);
          const value = read(message.data);
          if (value !== undefined) resolve(value);
        } catch (error) {
          reject(error as Error);
        }
      };
      this.#waiting.set(token, { subject, onMessage, onError: reject });
      signal?.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    });
  }

  forget(token: string): void {
    this.#waiting.delete(token);
  }

  #dispatch(error: Error | null, message: Msg): void {
    if (error === null) {
      this.#waiting.get(message.subject.slice(message.subject.lastIndexOf(".") + 1))?.onMessage(message);
      return;
    }
    this.#subscription = undefined; // the server ended it: this login may not subscribe there
    this.#fail(error);
  }

  #fail(error: Error, subject?: string): void {
    for (const waiting of [...this.#waiting.values()]) if (subject === undefined || waiting.subject === subject) waiting.onError(error);
  }
}
