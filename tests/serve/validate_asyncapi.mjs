// The AsyncAPI document, read by AsyncAPI's own parser: node validate_asyncapi.mjs FILE. Exit status 1 where the parser finds an error.
import { Parser, fromFile } from "@asyncapi/parser";

const ERROR = 0; // of the parser's severities; the others are advice
const { document, diagnostics } = await fromFile(new Parser(), process.argv[2]).parse();
const errors = diagnostics.filter((one) => one.severity === ERROR);
for (const one of errors) console.error(`${one.path.join("/")}: ${one.message} (${one.code})`);
if (document) {
  const counts = [document.channels(), document.operations(), document.messages()].map((one) => one.all().length);
  console.log(`${counts[0]} channels, ${counts[1]} operations, ${counts[2]} messages`);
}
process.exit(document && errors.length === 0 ? 0 : 1);
