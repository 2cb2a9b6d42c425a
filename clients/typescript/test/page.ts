// What a page does with the client, in a real browser. tests/clients opens it, and gets what became of each of these.
import { bytes, connect, ConnectionLost, type RouteRequest } from "beamline-router-client/browser";

const NATS = new URLSearchParams(location.search).get("nats") ?? "ws://localhost:8080";
const TIMEOUT = 60_000; // milliseconds: a bound of a hang, no measure of speed
const ASKED: RouteRequest = { message: { tenant_id: "acme", message_type: "chat", payload: "hello" } };

const router = await connect({ servers: NATS, inboxPrefix: "_INBOX_page" }, { timeout: TIMEOUT });

const checks: Record<string, () => Promise<unknown>> = {
  "a decision": async () => (await router.decide({ ...ASKED, request_id: "page-1" })).context.request_id,
  "a no": async () => {
    const answer = await router.decide({ ...ASKED, policy_id: "nope" });
    return answer.ok ? "yes" : answer.error.code;
  },
  "a payload of bytes": async () => {
    const answer = await router.decide({ message: { tenant_id: "acme", message_type: "image", ...bytes(new Uint8Array([0, 255])) } });
    return answer.ok;
  },
  "many at once": async () => {
    const ids = Array.from({ length: 50 }, (_, number) => `page-many-${number}`);
    const answers = await Promise.all(ids.map((request_id) => router.decide({ ...ASKED, request_id })));
    return answers.every((answer, number) => answer.context.request_id === ids[number]);
  },
  "a publish ack, and the decision on the reply subject": async () => {
    const answers = router.answers({ subject: "_INBOX.page.answers" });
    const first = answers.next();
    await router.connection.flush();
    const ack = await router.publish({ ...ASKED, request_id: "page-2" }, { replyTo: "_INBOX.page.answers" });
    const { value } = await first;
    await answers.return(undefined);
    return [ack.stream, value?.answer.context.request_id];
  },
  "a stream, from a provider that this page serves": async () => {
    const service = await router.serve({
      kind: "provider",
      id: "echo",
      version: "v1",
      async *handle({ prompt }) {
        yield* ["you said ", prompt];
      },
    });
    let text = "";
    for await (const chunk of router.stream({ tenant_id: "acme", provider_id: "echo", prompt: "hello" })) text += chunk.data ?? "";
    await service.stop();
    return text;
  },
  "a closed connection": async () => {
    await router.close();
    return router.decide(ASKED).then(
      () => "an answer",
      (error: unknown) => error instanceof ConnectionLost,
    );
  },
};

const found: Record<string, unknown> = {};
for (const [name, check] of Object.entries(checks)) found[name] = await check().catch((error: unknown) => String(error));
await fetch("/found", { method: "POST", body: JSON.stringify(found) });
