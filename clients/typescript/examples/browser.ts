import { connect } from "beamline-router-client/browser";

const router = await connect({ servers: "wss://nats.example.com", token: "…" });
const answer = await router.decide({ message: { tenant_id: "acme", message_type: "chat", payload: "Hello" } });
document.title = answer.ok ? answer.decision.provider_id : answer.error.code;
