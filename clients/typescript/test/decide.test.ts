import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, BrokerRefused, ConnectionLost, NoRouter, PermissionDenied, Router, RouterError, Unanswered } from "beamline-router-client/node";
import { ASKED, DENIED_URL, open, STORED_URL } from "./support.js";

const router = await open();
const nc = router.connection;
const REFUSAL = '{"ok":false,"error":{"code":"internal","message":""},"context":{}}';

test("a decision comes back with its types", async () => {
  const answer = await router.decide({ ...ASKED, request_id: "ts-1", trace_id: "t-1" });
  assert.ok(answer.ok, JSON.stringify(answer));
  assert.equal(typeof answer.decision.provider_id, "string");
  assert.equal(answer.decision.metadata.policy_id, "default");
  assert.deepEqual(answer.context, { request_id: "ts-1", trace_id: "t-1" });
});

test("a no is an answer", async () => {
  const answer = await router.decide({ ...ASKED, policy_id: "nope" });
  assert.ok(!answer.ok);
  assert.equal(answer.error.code, "policy_not_found");
});

test("a hundred requests at once each get their own answer", async () => {
  const ids = Array.from({ length: 100 }, (_, number) => `many-${number}`);
  const answers = await Promise.all(ids.map((request_id) => router.decide({ ...ASKED, request_id })));
  assert.deepEqual(
    answers.map((answer) => answer.context.request_id),
    ids,
  );
});

test("a request that is asked again is decided once, and its answer has its own trace id", async () => {
  const [first, second] = [
    await router.decide({ ...ASKED, request_id: "again" }),
    await router.decide({ ...ASKED, request_id: "again", trace_id: "t-2" }),
  ];
  assert.ok(first.ok && second.ok);
  assert.deepEqual(first.decision, second.decision);
  assert.equal(second.context.trace_id, "t-2");
});

test("bytes are a payload too", async () => {
  const answer = await router.decide({ message: { tenant_id: "acme", message_type: "image", ...bytes(new Uint8Array([0, 255])) } });
  assert.ok(answer.ok, JSON.stringify(answer));
});

test("every request names its inbox, and has a message id and the contract's headers", async () => {
  const heard = nc.subscribe("s.headers", { max: 1 });
  const asked = new Router(nc, { subject: "s.headers" }).decide(ASKED, { timeout: 50 });
  const refused = assert.rejects(asked, Unanswered);
  for await (const { headers, reply } of heard) {
    assert.equal(headers?.get("Reply-To"), reply);
    assert.deepEqual([headers?.get("tenant_id"), headers?.get("version")], ["acme", "1"]);
    assert.match(headers?.get("trace_id") ?? "", /^[0-9a-f]{32}$/);
    assert.ok(headers?.get("Nats-Msg-Id"));
  }
  await refused;
});

test("another attempt is the same message again", async () => {
  const heard: string[] = [];
  nc.subscribe("s.twice", {
    callback: (_, message) => {
      heard.push(`${message.reply} ${String(message.headers)} ${message.string()}`);
      if (heard.length >= 2) message.respond(REFUSAL);
    },
  });
  const answer = await (await open({ subject: "s.twice" })).decide(ASKED, { timeout: 100, attempts: 600 });
  assert.ok(!answer.ok);
  assert.equal(heard[0], heard[1]);
});

test("a publish ack of the stream is not taken for the answer", async () => {
  nc.subscribe("s.stored", {
    callback: (_, message) => {
      message.respond('{"stream":"S","seq":1}');
      message.respond(REFUSAL);
    },
  });
  const answer = await (await open({ subject: "s.stored" })).decide(ASKED);
  assert.ok(!answer.ok);
});

test("a router whose stream acknowledges publishers answers too", async () => {
  const answer = await (await open({}, STORED_URL)).decide(ASKED);
  assert.ok(answer.ok, JSON.stringify(answer));
});

for (const [reply, error] of [
  ["what?", RouterError],
  ["{}", RouterError],
  ['{"error":{"err_code":10077,"description":"full"},"stream":""}', BrokerRefused],
] as const) {
  test(`what is no answer is an error: ${reply}`, async () => {
    nc.subscribe("s.odd", { max: 1, callback: (_, message) => void message.respond(reply) });
    await nc.flush();
    await assert.rejects((await open({ subject: "s.odd" })).decide(ASKED), error);
  });
}

test("a server where no router ever was says so at once", async () => {
  await assert.rejects((await open({ subject: "not.served" })).decide(ASKED, { timeout: 60_000 }), NoRouter);
});

test("a login that may not ask is told so at once", async () => {
  await assert.rejects((await open({}, DENIED_URL)).decide(ASKED, { timeout: 60_000 }), PermissionDenied);
});

test("a waiting request can be given up", async () => {
  nc.subscribe("s.silent", { callback: () => undefined });
  await nc.flush();
  const controller = new AbortController();
  const asked = (await open({ subject: "s.silent" })).decide(ASKED, { timeout: 60_000, signal: controller.signal });
  controller.abort(new Error("the user left"));
  await assert.rejects(asked, /the user left/);
});

test("a request above the server's limit is refused before it closes the connection", async () => {
  const large = { message: { tenant_id: "acme", message_type: "chat", payload: "x".repeat(9 << 20) } };
  await assert.rejects(router.decide(large), /above the server's limit/);
  assert.ok((await router.decide(ASKED)).ok);
});

test("a closed connection has one error, whatever is asked", async () => {
  const closed = await open();
  await closed.close();
  const invocation = { tenant_id: "acme", provider_id: "echo", prompt: "hello" };
  for (const ask of [
    () => closed.decide(ASKED),
    () => closed.publish(ASKED),
    () => closed.invoke(invocation),
    () => closed.stream(invocation).next(),
  ]) {
    await assert.rejects(ask(), ConnectionLost);
  }
});
