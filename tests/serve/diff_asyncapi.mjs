// Two AsyncAPI documents, compared by AsyncAPI's own library: node diff_asyncapi.mjs OLD NEW. It knows what breaks of servers, channels
// and operations; of schemas it knows no rules, and leaves them to `router contract diff`. Exit status 1 where it finds a breaking change.
import { readFile } from "node:fs/promises";
import { diff } from "@asyncapi/diff";

const [old, now] = await Promise.all(process.argv.slice(2).map(async (file) => JSON.parse(await readFile(file, "utf8"))));
const { changes } = diff(old, now).getOutput();
const breaking = changes.filter((change) => change.type === "breaking");
for (const change of breaking) console.error(`${change.action} ${change.path}`);
console.log(`${changes.length} changes, ${breaking.length} of them breaking`);
process.exit(breaking.length === 0 ? 0 : 1);
