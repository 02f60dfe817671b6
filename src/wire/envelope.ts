/** What is the same in every chunk of an answer: our id, our clock, the model id the customer knows. Never the upstream's. */
export interface Envelope {
  /** `chatcmpl-` and the request id. */
  readonly id: string
  /** Unix time in seconds. */
  readonly created: number
  readonly model: string
}

/** The id customers see; the request id is inside, so that a completion can be found in the usage rows. */
export function completionId(requestId: string): string {
  return `chatcmpl-${requestId}`
}
