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
  // Joined it is one flat text; as a template, of parts, JSON.stringify would take its slow path for the whole answer.
  const id = ['chatcmpl-', request.requestId].join('')
  return { id, created: Math.floor(request.startedAtEpochMs / 1000), model }
}
