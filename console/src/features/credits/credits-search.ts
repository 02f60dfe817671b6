/** What a link to the credits of a customer opens. */
export interface CreditsSearch {
  /** The dialog that adds credit. */
  readonly add?: true
}

/** Keeps what is valid of the search parameters of the credits. */
export function readCreditsSearch({ add }: Record<string, unknown>): CreditsSearch {
  return { ...(add === true && { add }) }
}
