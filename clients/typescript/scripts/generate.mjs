// The types of all messages, made of the schemas that `router contract schemas DIR` writes:
//
//     node scripts/generate.mjs DIR TARGET        writes TARGET/src/messages.ts and TARGET/test/examples.ts
//
// A schema says more than a type can: rules over several fields are left out. Where a field counts only if another one is
// absent, its schema allows any value; then the type is the one that its rule names for the case that it counts.
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { compile } from "json-schema-to-typescript";

const HEAD = "// Made by scripts/generate.mjs of the router's schemas; a test keeps it equal to them.\n\n";
const KEPT = ["type", "enum", "const", "description", "required", "additionalProperties"];
const ANY = 6; // of JSON's types
const OPTIONS = { bannerComment: "", format: true, ignoreMinAndMaxItems: true, style: { printWidth: 140, tabWidth: 2 } };

const [from, to] = process.argv.slice(2);
const files = (await readdir(from)).filter((name) => name.endsWith(".json")).sort();
const schemas = await Promise.all(
  files.map(async (name) => [name.slice(0, -".json".length), JSON.parse(await readFile(join(from, name), "utf8"))]),
);
await write("src/messages.ts", await writeTypes());
await write("test/examples.ts", writeExamples());

async function write(name, text) {
  await mkdir(join(to, name, ".."), { recursive: true });
  await writeFile(join(to, name), HEAD + text);
}

async function writeTypes() {
  const parts = [];
  for (const [, schema] of schemas) parts.push((await compile(simplify(schema, schema), schema.title, OPTIONS)).trim());
  const names = parts.flatMap((part) => [...part.matchAll(/^export (?:type|interface) (\w+)/gm)].map((match) => match[1]));
  const twice = names.filter((name, place) => names.indexOf(name) !== place);
  if (twice.length > 0) throw new Error(`two types have one name: ${twice.join(", ")}`);
  const all = schemas.map(([name, schema]) => `  ${JSON.stringify(name)}: ${schema.title};\n`).join("");
  return `${parts.join("\n\n")}\n\n/** The type of each message, by the name of its schema. */\nexport interface Messages {\n${all}}\n`;
}

function writeExamples() {
  const all = schemas.map(
    ([name, schema]) => `  ${JSON.stringify(name)}: ${JSON.stringify(schema.examples, null, 2).replaceAll("\n", "\n  ")},\n`,
  );
  const type = "{ [name in keyof Messages]: Messages[name][] }";
  return `import type { Messages } from "beamline-router-client";\n\nexport const examples: ${type} = {\n${all.join("")}};\n`;
}

/** A schema of types alone. `hints`: types of fields, by their places, that rules name. */
function simplify(schema, root, hints = readHints(schema, root), place = "") {
  if (schema.$ref) return simplify({ ...root.$defs[schema.$ref.split("/").at(-1)], ...schema, $ref: undefined }, root, hints, place);
  const simple = Object.fromEntries(KEPT.filter((name) => name in schema).map((name) => [name, schema[name]]));
  if (schema.oneOf) simple.oneOf = schema.oneOf.map((form) => simplify({ ...form, title: root.title + capitalize(form.title) }, root));
  else if (schema.properties) Object.assign(simple, simplifyFields(schema, root, hints, place));
  else if (schema.anyOf) simple.anyOf = schema.anyOf.map((one) => simplify(one, root));
  if (schema.oneOf || !place) simple.title = schema.title;
  if (schema.items) simple.items = simplify(schema.items, root);
  if (schema.additionalProperties instanceof Object) simple.additionalProperties = simplify(schema.additionalProperties, root);
  if (Array.isArray(schema.type) && schema.type.length === ANY)
    return { ...(hints[place] ?? { tsType: "unknown" }), description: schema.description };
  return simple;
}

function simplifyFields(schema, root, hints, place) {
  const fields = Object.entries(schema.properties).map(([name, field]) => [name, simplify(field, root, hints, `${place}.${name}`)]);
  return { properties: Object.fromEntries(fields), additionalProperties: schema.additionalProperties ?? false };
}

/** Of rules `if PLACE has a value then it is …`: what it is, by place. */
function readHints(schema, root, found = {}) {
  for (const rule of [...(schema.allOf ?? []), ...[schema.if && schema, schema.then, schema.else].filter(Boolean)]) {
    if (rule !== schema) readHints(rule, root, found);
    const place = rule.if && findPlace(rule.if);
    for (const then of rule.if ? [rule.then, ...(rule.then?.allOf ?? [])] : []) {
      if (place && findPlace(then) === place) found[place] ??= simplify(findLeaf(then), root, {}, place);
    }
  }
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    for (const [inner, hint] of Object.entries(readHints(field, root))) found[`.${name}${inner}`] ??= hint;
  }
  return found;
}

function findPlace(schema) {
  const [name, ...others] = Object.keys(schema?.properties ?? {});
  return name === undefined || others.length > 0 ? "" : `.${name}${findPlace(schema.properties[name])}`;
}

function findLeaf(schema) {
  const [inner] = Object.values(schema.properties ?? {});
  return inner ? findLeaf(inner) : schema;
}

function capitalize(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
