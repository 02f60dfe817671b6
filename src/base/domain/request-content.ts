/** A message of a prompt, as text: pictures, sounds and files are named only. */
export interface ContentMessage {
  readonly role: string
  readonly text: string
}

/** What was recorded of a request, without the credentials and personal data that were found in it. */
export interface RequestContent {
  /** In the order of the conversation. Of a long one, the last. */
  readonly messages: readonly ContentMessage[]
  readonly answer: string
  /** How many pieces were taken out. */
  readonly redactions: number
  /** Something was left out because it was too long. */
  readonly isCut: boolean
}

/** A text to record. `length`: what is kept of it, in UTF-16 units. The rest shows what a credential at the cut is. */
export interface RedactableText {
  readonly text: string
  readonly length: number
}

export interface RedactedTexts {
  readonly texts: readonly string[]
  /** How many pieces were replaced. */
  readonly redactions: number
}

/**
 * Replaces credentials and personal data in the texts of a request, off the event loop. Resolves with null when that is not
 * possible: then nothing is recorded.
 */
export type Redact = (texts: readonly RedactableText[], customerId: string) => Promise<RedactedTexts | null>
