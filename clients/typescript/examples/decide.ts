import { connect } from "beamline-router-client/node";

const router = await connect({ servers: process.argv[2] ?? "nats://localhost:4222" });

const answer = await router.decide({
  message: { tenant_id: "acme", message_type: "chat", payload: { text: "Hello" } },
  policy_id: "default",
  request_id: "order-17",
});
if (answer.ok) console.log("decided:", answer.decision.provider_id);
else console.log("refused:", answer.error.code, answer.error.message);

await router.close();
