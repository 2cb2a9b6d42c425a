import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "beamline-router-client/node";

const router = await connect({ servers: process.argv[2] ?? "nats://localhost:4222" });

// Once, by an operator of the servers: a stream that keeps the reply subject.
const manager = await jetstreamManager(router.connection);
await manager.streams.add({ name: "DECISIONS", subjects: ["beamline.router.v1.decide.reply"] });

const ack = await router.publish({ message: { tenant_id: "acme", message_type: "chat", payload: "Hello" }, request_id: "order-18" });
console.log("stored in", ack.stream);

for await (const { answer } of router.answers({ stream: "DECISIONS", durable: "orders" })) {
  console.log("decision of", answer.context.request_id, answer.ok ? "is there" : answer.error.code);
  break; // here; a service reads on
}

await router.close();
