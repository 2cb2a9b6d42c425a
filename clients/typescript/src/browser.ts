// A client of the router for browsers, over the WebSocket listener of a NATS server.
import { wsconnect, type ConnectionOptions } from "@nats-io/nats-core";
import { Router, type RouterOptions } from "./client.js";

export * from "./index.js";

/** `connection`: servers (`wss://…`) and login, as `wsconnect` of `@nats-io/nats-core` takes them. */
export async function connect(connection: ConnectionOptions = {}, options: RouterOptions = {}): Promise<Router> {
  return new Router(await wsconnect(connection), { ...shareInboxes(connection), ...options });
}

function shareInboxes({ inboxPrefix }: ConnectionOptions): RouterOptions {
  return inboxPrefix === undefined ? {} : { inboxPrefix };
}
