// The browser's entry, over WebSocket, in Node: it needs nothing of a browser but that.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { connect } from "beamline-router-client/browser";

const router = await connect({ servers: process.env["NATS_WS_URL"] ?? "ws://localhost:8080" }, { timeout: 60_000 });
after(() => router.close());

test("a decision comes over WebSocket", async () => {
  const answer = await router.decide({ message: { tenant_id: "acme", message_type: "chat", payload: "hello" } });
  assert.ok(answer.ok, JSON.stringify(answer));
});

test("a stream comes over WebSocket", async () => {
  const service = await router.serve({
    kind: "provider",
    id: "echo",
    version: "v1",
    async *handle({ prompt }) {
      yield* ["you said ", prompt];
    },
  });
  let text = "";
  for await (const chunk of router.stream({ tenant_id: "acme", provider_id: "echo", prompt: "hello" })) text += chunk.data;
  assert.equal(text, "you said hello");
  await service.stop();
});
