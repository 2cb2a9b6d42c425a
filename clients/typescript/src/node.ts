// A client of the router for Node, over TCP or TLS.
import { connect as open, type NodeConnectionOptions } from "@nats-io/transport-node";
import { Router, type RouterOptions } from "./client.js";

export * from "./index.js";

/** `connection`: servers, login and TLS, as `@nats-io/transport-node` takes them. */
export async function connect(connection: NodeConnectionOptions = {}, options: RouterOptions = {}): Promise<Router> {
  return new Router(await open(connection), { ...shareInboxes(connection), ...options });
}

function shareInboxes({ inboxPrefix }: NodeConnectionOptions): RouterOptions {
  return inboxPrefix === undefined ? {} : { inboxPrefix };
}
