import { RouterError } from "./errors.js";

/**
 * An extension's handler throws it to answer with an error. `status` 4xx: this request can never succeed, and is not tried again;
 * 5xx: trouble of the extension's own, which counts against it and is tried again. Any other exception is answered 500.
 */
export class Refusal extends RouterError {
  constructor(
    readonly status: number,
    code: string,
    message: string,
    readonly field?: string,
  ) {
    super(code, message);
  }
}
