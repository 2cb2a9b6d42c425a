import { connect } from "beamline-router-client/node";

const router = await connect({ servers: process.argv[2] ?? "nats://localhost:4222" });

// A provider, for this example in the same program. The router calls it where its registry has an entry for it.
await router.serve({
  kind: "provider",
  id: "echo",
  version: "v1",
  async *handle({ prompt }) {
    yield "you said ";
    yield prompt;
    return { usage: { prompt_tokens: 1, completion_tokens: 3 }, cost: 0.25 };
  },
});

let text = "";
for await (const chunk of router.stream({ tenant_id: "acme", provider_id: "echo", prompt: "hello" })) {
  text += chunk.data ?? "";
  if (chunk.done) console.log(text, `(${String(chunk.metadata?.["completion_tokens"])} tokens)`);
}

await router.close();
