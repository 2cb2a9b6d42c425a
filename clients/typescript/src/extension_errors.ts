// Errors of an extension, as they travel.
import { headers, type MsgHdrs } from "@nats-io/nats-core";
import { DEADLINE, ERROR, ERROR_CODE } from "./headers.js";
import { Refusal } from "./refusal.js";

const LETTERS = 200; // of an error's text in a header
const DAY = 86_400_000;

export function toRefusal(error: unknown): Refusal {
  return error instanceof Refusal ? error : new Refusal(500, "internal", "The extension failed");
}

export function describe(refusal: Refusal): { error: Record<string, string> } {
  const { code, message, field } = refusal;
  return { error: field === undefined ? { code, message } : { code, message, field } };
}

export function buildErrorHeaders(refusal: Refusal): MsgHdrs {
  const built = headers();
  built.set(ERROR_CODE, String(refusal.status));
  built.set(ERROR, `${refusal.code}: ${refusal.message}`.replace(/[^\x20-\x7e]/g, "?").slice(0, LETTERS));
  return built;
}

/** Milliseconds that the router still waits; undefined where it does not say. A span and no time of day: hosts' clocks differ. */
export function readTimeLeft(found: MsgHdrs | undefined): number | undefined {
  const text = found?.get(DEADLINE);
  const left = text ? Number(text) : Number.NaN;
  return left < DAY ? left : undefined;
}
