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

/**
 * Replaces credentials and personal data in texts, off the event loop. Resolves with null when that is not possible: then
 * nothing is recorded.
 */
export type Redact = (
  texts: readonly string[],
) => Promise<{ readonly texts: readonly string[]; readonly redactions: number } | null>
