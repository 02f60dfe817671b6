/** What is the same in every chunk of an answer: our id, our clock, the model id the customer knows. Never the upstream's. */
export interface Envelope {
  /** `chatcmpl-` and the request id. */
  readonly id: string
  /** Unix time in seconds. */
  readonly created: number
  readonly model: string
}

/** The id has the request id inside, so that a completion can be found in the usage rows. */
export function envelopeOf(request: { requestId: string; startedAtEpochMs: number }, model: string): Envelope {
  return { id: `chatcmpl-${request.requestId}`, created: Math.floor(request.startedAtEpochMs / 1000), model }
}
