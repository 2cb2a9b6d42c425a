import assert from "node:assert/strict";
import { test } from "node:test";
import { type Processor, Refusal, type Validator } from "beamline-router-client/node";
import { ASKED, open, PATIENCE, signal } from "./support.js";

const router = await open();
const GUARDED = { ...ASKED, policy_id: "guarded" };
const ask = (payload: unknown) => router.decide({ ...GUARDED, message: { ...ASKED.message, payload } });

const shout: Processor = {
  kind: "pre",
  id: "shout",
  version: "v1",
  handle({ payload, config }) {
    if (payload.payload === "crash") throw new Error("it raised");
    const text = String(payload.payload).toUpperCase();
    return { payload: { ...payload, payload: text }, metadata: { loudness: String(config["loudness"]) } };
  },
};

const polite: Validator = {
  kind: "validator",
  id: "polite",
  version: "v1",
  async handle({ payload }) {
    if (payload.payload === "HUH") throw new Refusal(422, "unclear", "This cannot be judged", "payload.payload");
    return payload.payload === "DAMN" ? { status: "reject", reason: "rude", details: { word: 1 } } : { status: "ok" };
  },
};

const stamp: Processor = {
  kind: "post",
  id: "stamp",
  version: "v1",
  handle: ({ payload, metadata }) => ({
    payload,
    metadata: { stamped: `${metadata.decision?.provider_id} ${String(metadata["loudness"])}` },
  }),
};

const services = [await router.serve(shout), await router.serve(polite), await router.serve(stamp)];

test("a request passes through all three kinds", async () => {
  const answer = await ask("hello");
  assert.ok(answer.ok, JSON.stringify(answer));
  assert.equal(answer.decision.metadata["stamped"], `${answer.decision.provider_id} 11`);
  const executed = JSON.parse(answer.decision.metadata.executed_extensions ?? "[]") as { id: string; status: string }[];
  assert.deepEqual(
    executed.map(({ id, status }) => [id, status]),
    [
      ["shout", "ok"],
      ["polite", "ok"],
      ["stamp", "ok"],
    ],
  );
});

test("a validator's rejection reaches the client", async () => {
  const answer = await ask("damn");
  assert.ok(!answer.ok);
  assert.equal(answer.error.code, "validator_blocked");
  assert.equal(answer.error.details?.["reason"], "rude");
});

test("a handler's exception is an error of the extension, and shows none of its words", async () => {
  const answer = await ask("crash");
  assert.ok(!answer.ok);
  assert.deepEqual([answer.error.code, answer.error.details?.["cause"]], ["pre_processor_failed", "extension_error"]);
  assert.doesNotMatch(JSON.stringify(answer), /it raised/);
});

test("a refusal is told with its status", async () => {
  const reply = await router.connection.request(
    "beamline.ext.validate.polite.v1",
    JSON.stringify({ tenant_id: "acme", payload: { payload: "HUH" } }),
    { timeout: PATIENCE },
  );
  assert.equal(reply.headers?.get("Nats-Service-Error-Code"), "422");
  assert.deepEqual(reply.json(), { error: { code: "unclear", message: "This cannot be judged", field: "payload.payload" } });
});

test("a service that stops finishes what it has begun", async () => {
  const begun = signal<void>();
  const go = signal<void>();
  const slow = await router.serve({
    kind: "pre",
    id: "slow",
    version: "v1",
    async handle({ payload }) {
      begun.resolve();
      await go.promise;
      return { payload };
    },
  });
  const asked = router.connection.request(slow.subject, JSON.stringify({ tenant_id: "acme", payload: { payload: 1 } }), {
    timeout: 60_000,
  });
  await begun.promise;
  const stopping = slow.stop();
  go.resolve();
  assert.equal((await asked).json<{ payload: { payload: number } }>().payload.payload, 1);
  await stopping;
});

test("a stopped extension is not there any more", async () => {
  for (const service of services) await service.stop();
  const answer = await ask("hello");
  assert.ok(!answer.ok);
  assert.equal(answer.error.details?.["cause"], "extension_unavailable");
});
