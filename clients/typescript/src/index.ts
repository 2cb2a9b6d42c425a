// All but the connection: `beamline-router-client/node` and `beamline-router-client/browser` have that, and everything here.
export { Router, type RouterOptions } from "./client.js";
export type { DecideOptions } from "./decide.js";
export { BrokerRefused, ConnectionLost, InvocationFailed, NoRouter, PermissionDenied, RouterError, Unanswered } from "./errors.js";
export { type Call, type Extension, type Pieces, type Processor, type Provider, subjectOf, type Validator } from "./extension.js";
export type { ExtensionService, ServeOptions } from "./extension_service.js";
export type * from "./messages.js";
export { bytes, toBytes } from "./payload.js";
export type { InvokeOptions } from "./providers.js";
export type { AnswersOptions, PublishOptions, ReceivedAnswer } from "./publish.js";
export { Refusal } from "./refusal.js";
