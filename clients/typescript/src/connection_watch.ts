// What the server and the network say of a connection, for everything that waits on it.
import { errors, type NatsConnection } from "@nats-io/nats-core";

export type OnLost = () => void;
export type OnDenied = (subject: string, cause: Error) => void;

export class ConnectionWatch {
  readonly #onLost = new Set<OnLost>();
  readonly #onDenied = new Set<OnDenied>();

  constructor(connection: NatsConnection) {
    void this.#watch(connection);
  }

  /** `listener` is called when the connection is lost, even if another one follows. Returns how to end that. */
  onLost(listener: OnLost): () => void {
    this.#onLost.add(listener);
    return () => this.#onLost.delete(listener);
  }

  /** `listener` gets the subject of a publish that the server refused. */
  onDenied(listener: OnDenied): void {
    this.#onDenied.add(listener);
  }

  async #watch(connection: NatsConnection): Promise<void> {
    for await (const status of connection.status()) {
      if (status.type === "disconnect") for (const listener of [...this.#onLost]) listener();
      if (status.type !== "error" || !(status.error instanceof errors.PermissionViolationError)) continue;
      const { operation, subject } = status.error;
      if (operation === "publish") for (const listener of this.#onDenied) listener(subject, status.error);
    }
    for (const listener of [...this.#onLost]) listener();
  }
}
