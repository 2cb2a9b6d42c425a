// JSON and bytes.
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });
const SLICE = 0x8000; // arguments of one call

/** Throws a TypeError for what JSON cannot hold. */
export function encode(value: unknown): Uint8Array {
  const text: string | undefined = JSON.stringify(value);
  if (text === undefined) throw new TypeError("not a JSON value");
  return encoder.encode(text);
}

/** The JSON object in these bytes. Throws a SyntaxError, or a TypeError for bytes that are not UTF-8 and for what is no object. */
export function decode(data: Uint8Array): Record<string, unknown> {
  const value: unknown = JSON.parse(decoder.decode(data));
  if (!isObject(value)) throw new TypeError("not a JSON object");
  return value;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Bytes as a payload: `{ message_type: "image", ...bytes(data) }`. */
export function bytes(data: Uint8Array): { payload: string; payload_encoding: "base64" } {
  return { payload: toBase64(data), payload_encoding: "base64" };
}

/** The bytes of a text beside `payload_encoding`. */
export function toBytes(text: string, encoding?: string | null): Uint8Array {
  return encoding === "base64" ? Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)) : encoder.encode(text);
}

export function toBase64(data: Uint8Array): string {
  let letters = "";
  for (let place = 0; place < data.length; place += SLICE) letters += String.fromCharCode(...data.subarray(place, place + SLICE));
  return btoa(letters);
}
