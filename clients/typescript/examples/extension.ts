import { connect, Refusal } from "beamline-router-client/node";

const router = await connect({ servers: process.argv[2] ?? "nats://localhost:4222" });

const service = await router.serve({
  kind: "validator",
  id: "short_text",
  version: "v1",
  handle({ payload, config }) {
    if (typeof payload.payload !== "string") throw new Refusal(422, "no_text", "The payload is not text", "payload.payload");
    const limit = Number(config["limit"] ?? 100);
    return payload.payload.length <= limit ? { status: "ok" } : { status: "reject", reason: "too_long", details: { limit } };
  },
});
console.log("listening on", service.subject);

process.once("SIGTERM", () => void router.close()); // it finishes what it has begun
