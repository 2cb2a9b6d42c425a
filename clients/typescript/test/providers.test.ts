import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionLost, InvocationFailed, type Provider, Refusal } from "beamline-router-client/node";
import { open, signal } from "./support.js";

const router = await open();
const ASKED = { tenant_id: "acme", provider_id: "echo", prompt: "hello" };
let stopped = signal<string>();

const echo: Provider = {
  kind: "provider",
  id: "echo",
  version: "v1",
  async *handle({ prompt, parameters }, { signal: ended }) {
    if (prompt === "no") throw new Refusal(422, "not_today", "This prompt is refused");
    for (const word of ["you", " said ", prompt]) yield word;
    if (prompt === "break") throw new Error("it broke");
    try {
      while (parameters["endless"] === true && !ended.aborted) {
        yield ".";
        await new Promise((resolve) => setImmediate(resolve));
      }
    } finally {
      if (parameters["endless"] === true) stopped.resolve(ended.aborted ? "aborted" : "ended");
    }
    return { usage: { prompt_tokens: 1, completion_tokens: 3 }, cost: 0.25, metadata: { model: "parrot" } };
  },
};
await router.serve(echo);

test("the answer of a provider comes back with its cost and tokens", async () => {
  const response = await router.invoke({ ...ASKED, message_id: "i-1" });
  assert.deepEqual([response.status, response.body, response.cost, response.request_id], ["success", "you said hello", 0.25, "i-1"]);
  assert.deepEqual(response.metadata, { model: "parrot", prompt_tokens: "1", completion_tokens: "3", cost: "0.25" });
});

test("what a provider refuses is an answer", async () => {
  const response = await router.invoke({ ...ASKED, prompt: "no" });
  assert.deepEqual([response.status, response.error_code, response.metadata["fault"]], ["error", "extension_error", "request"]);
});

test("a provider that is not registered is an answer", async () => {
  const response = await router.invoke({ ...ASKED, provider_id: "unknown" });
  assert.deepEqual([response.status, response.error_code], ["error", "extension_not_found"]);
});

test("a stream comes in its pieces, and the last one says what it took", async () => {
  const texts: string[] = [];
  let last: Readonly<Record<string, unknown>> = {};
  for await (const chunk of router.stream(ASKED)) {
    texts.push(chunk.data ?? "");
    if (chunk.done) last = chunk.metadata ?? {};
  }
  assert.deepEqual(texts.slice(0, 3), ["you", " said ", "hello"]);
  assert.equal(last["status"], "success");
  assert.equal(last["completion_tokens"], "3");
});

test("a stream that breaks is an error, after the pieces that came", async () => {
  const texts: string[] = [];
  await assert.rejects(
    async () => {
      for await (const chunk of router.stream({ ...ASKED, prompt: "break" })) texts.push(chunk.data ?? "");
    },
    (error) => error instanceof InvocationFailed && error.code === "extension_error",
  );
  assert.equal(texts.join(""), "you said break");
});

test("a stream of an unknown provider is an error", async () => {
  const asked = router.stream({ ...ASKED, provider_id: "unknown" }).next();
  await assert.rejects(asked, (error) => error instanceof InvocationFailed && error.code === "extension_not_found");
});

test("a stream whose connection is lost is an error: pieces may be missing", async () => {
  const own = await open();
  const asked = own.stream({ ...ASKED, parameters: { endless: true } });
  await asked.next();
  await own.connection.reconnect();
  await assert.rejects(async () => {
    for await (const _ of asked);
  }, ConnectionLost);
});

test("a loop that is left stops the provider", async () => {
  stopped = signal();
  let count = 0;
  for await (const _ of router.stream({ ...ASKED, parameters: { endless: true } })) {
    count += 1;
    if (count === 10) break;
  }
  assert.equal(await stopped.promise, "aborted");
});
