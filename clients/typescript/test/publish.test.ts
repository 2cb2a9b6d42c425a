import assert from "node:assert/strict";
import { test } from "node:test";
import { JetStreamApiError, jetstreamManager } from "@nats-io/jetstream";
import { ASKED, open, PATIENCE } from "./support.js";

const router = await open();
const REPLIES = "beamline.router.v1.decide.reply";

test("a published request has a publish ack, and its decision comes on the reply subject", async () => {
  const answers = router.answers();
  const first = answers.next();
  await router.connection.flush();
  const ack = await router.publish({ ...ASKED, request_id: "published-1" });
  assert.equal(ack.stream, "ROUTER_DECIDE");
  assert.ok(ack.seq > 0);
  const { value } = await first;
  assert.equal(value?.subject, REPLIES);
  assert.equal(value?.answer.context.request_id, "published-1");
  await answers.return(undefined);
});

test("a decision goes to the address that the request names", async () => {
  const answers = router.answers({ subject: "_INBOX.elsewhere.*" });
  const first = answers.next();
  await router.connection.flush();
  await router.publish({ ...ASKED, request_id: "published-2" }, { replyTo: "_INBOX.elsewhere.1" });
  const { value } = await first;
  assert.deepEqual([value?.subject, value?.answer.context.request_id], ["_INBOX.elsewhere.1", "published-2"]);
  await answers.return(undefined);
});

test("decisions that a stream keeps wait for their reader", async () => {
  const manager = await jetstreamManager(router.connection, { timeout: PATIENCE });
  await manager.streams.add({ name: "ANSWERS", subjects: [REPLIES] });
  const ids = ["kept-1", "kept-2", "kept-3"];
  for (const request_id of ids) await router.publish({ ...ASKED, request_id });
  assert.deepEqual(await read(2), ids.slice(0, 2));
  assert.deepEqual(await read(2), ids.slice(1), "the loop was left at the second: it comes again");
  await manager.streams.delete("ANSWERS");
});

/** So many decisions of the stream; the loop is left at the last one. */
async function read(count: number): Promise<(string | undefined)[]> {
  const found: (string | undefined)[] = [];
  for await (const { answer } of router.answers({ stream: "ANSWERS" })) {
    found.push(answer.context.request_id);
    if (found.length === count) break;
  }
  return found;
}

test("a reader that waits can be ended", async () => {
  const controller = new AbortController();
  const waiting = router.answers({ signal: controller.signal }).next();
  controller.abort();
  assert.equal((await waiting).done, true);
});

test("a stream of another name is refused, as the server refuses it", async () => {
  const refused = router.publish(ASKED, { stream: "OTHER" });
  await assert.rejects(refused, (error) => error instanceof JetStreamApiError && error.code === 10060);
});
