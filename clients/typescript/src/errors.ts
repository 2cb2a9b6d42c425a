// What can go wrong besides an answer that says no. A refusal of the router (`ok: false`) is an answer and is not thrown.

/** Every error of this client has a stable `code`. */
export class RouterError extends Error {
  constructor(
    readonly code: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Nothing came in time. The request may have been decided: send it again with the same `request_id`. */
export class Unanswered extends RouterError {
  constructor(subject: string, timeout: number, attempts: number) {
    const tries = attempts > 1 ? ` (${attempts} attempts)` : "";
    super("unanswered", `no answer on ${subject} within ${timeout} ms${tries}: is a router running there?`);
  }
}

/** The server knows no subscriber of the subject: no router was ever started there. */
export class NoRouter extends RouterError {
  constructor(subject: string) {
    super("no_router", `no subscriber on ${subject}: no router was ever started on this server`);
  }
}

/** The connection was lost while an answer or a stream was awaited. */
export class ConnectionLost extends RouterError {
  constructor() {
    super("connection_lost", "the connection to the server was lost meanwhile");
  }
}

/** This login may not publish to the subject. */
export class PermissionDenied extends RouterError {
  constructor(subject: string, options?: ErrorOptions) {
    super("permission_denied", `this login may not publish to ${subject}`, options);
  }
}

/** The stream did not store the request; `number` is JetStream's. */
export class BrokerRefused extends RouterError {
  constructor(
    readonly number: number,
    description: string,
  ) {
    super("broker_refused", `the stream did not store the request: ${description} (${number})`);
  }
}

/** A provider's stream ended, and not well; `metadata` is its last chunk's. */
export class InvocationFailed extends RouterError {
  constructor(
    code: string,
    message: string,
    readonly metadata: Readonly<Record<string, unknown>> = {},
  ) {
    super(code, `${code}: ${message}`);
  }
}
