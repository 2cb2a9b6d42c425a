// What the tests share. The program that starts them (tests/clients) starts a NATS server and a router too.
import { after } from "node:test";
import { connect, type Router, type RouterOptions, type RouteRequest } from "beamline-router-client/node";

export const URL = process.env["NATS_URL"] ?? "nats://localhost:4222";
/** Of a router with `reply.confirm = stored`. */
export const STORED_URL = process.env["NATS_STORED_URL"] ?? URL;
/** Of a server where this login may not ask. */
export const DENIED_URL = process.env["NATS_DENIED_URL"] ?? URL;
export const ASKED: RouteRequest = { message: { tenant_id: "acme", message_type: "chat", payload: "hello" } };

/** Milliseconds: a bound of a hang, no measure of speed. */
export const PATIENCE = 60_000;

/** A client, closed after the file's last test. */
export async function open(options: RouterOptions = {}, servers = URL): Promise<Router> {
  const router = await connect({ servers }, { timeout: PATIENCE, ...options });
  after(() => router.close());
  return router;
}

/** Settled by whoever calls it first. */
export function signal<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
