// What an author of an extension writes.
import type { MsgHdrs } from "@nats-io/nats-core";
import type { ExtensionMessage, ExtensionRequest, ExtensionVerdict, ProviderAnswer, ProviderCall } from "./messages.js";

/** What a handler knows of its request beside the body. */
export interface Call {
  headers: MsgHdrs | undefined;
  /** Aborted when the router's deadline is over, when a stream has no reader any more, and when the service stops. */
  signal: AbortSignal;
}

interface Named {
  /** 1..64 of A-Z a-z 0-9 _ - */
  id: string;
  version: string;
}

/** Changes a request before it is decided, or adds metadata to a decision (`post`). */
export interface Processor extends Named {
  kind: "pre" | "post";
  handle(request: ExtensionRequest, call: Call): ExtensionMessage | Promise<ExtensionMessage>;
}

/** Judges a request. */
export interface Validator extends Named {
  kind: "validator";
  handle(request: ExtensionRequest, call: Call): ExtensionVerdict | Promise<ExtensionVerdict>;
}

/** Answers prompts. A handler that yields texts is a stream where one is asked for, and joined to one answer where not; it may return the figures. */
export interface Provider extends Named {
  kind: "provider";
  handle(request: ProviderCall, call: Call): ProviderAnswer | Promise<ProviderAnswer> | Pieces;
}

export type Pieces = AsyncGenerator<string, Omit<ProviderAnswer, "output"> | void>;
export type Extension = Processor | Validator | Provider;

const PREFIXES = {
  pre: "beamline.ext.pre.",
  validator: "beamline.ext.validate.",
  post: "beamline.ext.post.",
  provider: "beamline.provider.",
};

/** Where the router calls it. */
export function subjectOf(extension: Extension): string {
  const { id, version, kind } = extension;
  for (const token of [id, version]) {
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(token)) throw new TypeError(`${JSON.stringify(token)} is not 1..64 of A-Z a-z 0-9 _ -`);
  }
  return `${PREFIXES[kind]}${id}.${version}`;
}
